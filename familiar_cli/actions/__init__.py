"""The actions room: what a person can do with a familiar, as the commands name it."""
