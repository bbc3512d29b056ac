"""What the page may ask of the server: the bodies of its requests, and how they are read.

What is unusual: JSON is read by our own hand, since what a framework makes of NaN or of a hundred thousand brackets is
a fault of the server's; here each is a sentence, and never more than a megabyte is held.
What it does not know: what is done with a request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from regard.errors import ConfigError, UserError
from regard.inspect.edits import from_json
from regard.inspect.scripts import LIMIT
from regard.inspect.scripts import Request as RunRequest
from regard.text.backend import valid

MOST_BODY = 2**20
"""Bytes of a request."""

Body = TypeVar("Body", bound="Asked")


class Refused(Exception):
    """A request that is refused for its form: an HTTP status, and the error that goes with it."""

    def __init__(self, status: int, error: UserError) -> None:
        self.status, self.error = status, error
        super().__init__(str(error))


class Asked(BaseModel):
    """What every body is: no field that we do not know, no text for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: int = 0


class AskedRun(Asked):
    """POST /api/run."""

    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    to: str | None = None
    target: str | None = None
    prefix: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=LIMIT)] = []
    mode: Literal["greedy", "beam", "sample"] = "greedy"
    beam: Annotated[int, Field(ge=1, le=32)] = 4
    temperature: Annotated[FiniteFloat, Field(ge=0, le=100)] = 1.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    max_tokens: Annotated[int, Field(ge=0, le=LIMIT)] = 40
    edits: Annotated[list[dict[str, Any]], Field(max_length=256)] = []
    snapshot: str | None = None

    def request(self) -> RunRequest:
        """The same for `views.run`. Raises ConfigError for what cannot be."""
        return RunRequest(
            texts=tuple(map(valid, self.texts)), to=self.to, target=None if self.target is None else valid(self.target),
            prefix=tuple(self.prefix), mode=self.mode, beam=self.beam, temperature=self.temperature, seed=self.seed,
            max_tokens=self.max_tokens, edits=tuple(map(from_json, self.edits)),
        )  # fmt: skip


class AskedEdges(Asked):
    """POST /api/runs/{id}/edges."""

    part: str
    layer: Annotated[int, Field(ge=0)]
    head: Annotated[int, Field(ge=0)] | None = None
    query: Annotated[int, Field(ge=0)]


class AskedRoles(Asked):
    """POST /api/roles."""

    part: str | None = None
    sentences: Annotated[int, Field(ge=1, le=500)] = 50


async def read(request: Request, kind: type[Body]) -> Body:
    """The body of a request, checked. Raises Refused: 413 too large, 400 no JSON, 422 not what is asked for."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY:
            raise Refused(413, ConfigError("the request is too large", expected=f"at most {MOST_BODY:,} bytes"))
    try:
        return kind.model_validate(json.loads(body, parse_constant=_no_number))
    except ValidationError as error:
        raise Refused(422, not_as_asked(error.errors()[0])) from None
    except (ValueError, RecursionError) as error:  # bad UTF-8, and a number of thousands of digits, are ValueErrors
        raise Refused(400, ConfigError("the request is no JSON", got=str(error)[:200] or "nested too deep")) from None


def not_as_asked(first: Mapping[str, Any]) -> ConfigError:
    """The first thing that pydantic found wrong, as our error."""
    where = ".".join(map(str, first["loc"])) or None
    return ConfigError(first["msg"], where=where, got=repr(first["input"])[:200])


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
