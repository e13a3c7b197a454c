"""`ContentSearchProvider`: what memory has to say to a message, one module a tier."""

from familiar_cli.context.providers.content_search.provider import ContentSearchProvider

__all__ = ["ContentSearchProvider"]
