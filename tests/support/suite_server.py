"""The memory's server with what the protocol's own suite asks for by name, beside its own.

All of the rest is the server itself: its endpoint, its sessions, how calls are checked and errors
are told. A memory has no pictures and no sounds, so these stand here.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from mcp import types

from familiar_cli.servers.mcp.server import MemoryServer

_BYTES: Final = base64.b64encode(b"not really a picture").decode()
_TEXT: Final = types.TextContent(type="text", text="A text.")
_IMAGE: Final = types.ImageContent(type="image", data=_BYTES, mime_type="image/png")
_AUDIO: Final = types.AudioContent(type="audio", data=_BYTES, mime_type="audio/wav")


def _embedded(uri: str) -> types.EmbeddedResource:
    inside = types.TextResourceContents(uri=uri, text="A resource.", mime_type="text/plain")
    return types.EmbeddedResource(type="resource", resource=inside)


_RESULTS: Final[dict[str, list[Any]]] = {
    "test_simple_text": [_TEXT],
    "test_image_content": [_IMAGE],
    "test_audio_content": [_AUDIO],
    "test_embedded_resource": [_embedded("test://embedded-resource")],
    "test_multiple_content_types": [_TEXT, _IMAGE, _embedded("test://mixed-content-resource")],
}
_PROMPTS: Final = {
    "test_simple_prompt": lambda _: [_TEXT],
    "test_prompt_with_arguments": lambda sent: [types.TextContent(type="text", text=str(sent))],
    "test_prompt_with_embedded_resource": lambda sent: [_embedded(sent["resourceUri"]), _TEXT],
    "test_prompt_with_image": lambda _: [_IMAGE, _TEXT],
}


class SuiteServer(MemoryServer):
    """A memory that has what the suite wants to see, too."""

    async def _list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        listed = await super()._list_tools(ctx, params)
        more = [
            types.Tool(name=name, description="For the suite.", input_schema={"type": "object"})
            for name in _RESULTS
        ]
        return types.ListToolsResult(tools=[*listed.tools, *more])

    async def _call_tool(self, ctx: Any, params: Any) -> types.CallToolResult:
        if params.name in _RESULTS:
            return types.CallToolResult(content=_RESULTS[params.name])
        return await super()._call_tool(ctx, params)

    async def _read_resource(self, ctx: Any, params: Any) -> types.ReadResourceResult:
        uri = str(params.uri)
        if uri == "test://static-binary":
            blob = types.BlobResourceContents(uri=uri, blob=_BYTES, mime_type="image/png")
            return types.ReadResourceResult(contents=[blob])
        if uri.startswith("test://"):
            text = types.TextResourceContents(uri=uri, text=f"Of {uri}.", mime_type="text/plain")
            return types.ReadResourceResult(contents=[text])
        return await super()._read_resource(ctx, params)

    async def _get_prompt(self, ctx: Any, params: Any) -> types.GetPromptResult:
        if params.name not in _PROMPTS:
            return await super()._get_prompt(ctx, params)
        said = _PROMPTS[params.name](params.arguments or {})
        messages = [types.PromptMessage(role="user", content=content) for content in said]
        return types.GetPromptResult(messages=messages)
