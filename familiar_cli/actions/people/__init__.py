"""Who a familiar knows: reading their files, and changing who is who."""
