"""Status and queries for scripts: what the daemons say, under the names of ``control.proto``, as one JSON text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from node.config import ClusterConfig
from node.rpc import control_pb2 as pb


def status_json(config: ClusterConfig, statuses: Mapping[str, pb.StatusReply | str], words: Sequence[str]) -> str:
    """Every site of the cluster, whether it answers or not; ``words`` say what is going on."""
    sites = {site.name: {"address": site.address, **_answer(statuses[site.name])} for site in config.sites}
    return _text({"cluster": config.name, "tau_ms": config.tau_ms, "going_on": list(words), "sites": sites})


def queries_json(queries: Sequence[pb.QueryInfo], silent: Mapping[str, str]) -> str:
    """The queries of the sites that answer, and why the others do not."""
    return _text({"queries": [values(query) for query in queries], "silent": dict(silent)})


def walks_json(config: ClusterConfig, found: Mapping[str, Sequence[pb.WalkStatus] | str]) -> str:
    """The walks under way at each site that was asked, or why it does not answer."""
    sites = {
        site: {"answers": False, "reason": answer}
        if isinstance(answer, str)
        else {"answers": True, "walks": [values(walk) for walk in answer]}
        for site, answer in found.items()
    }
    return _text({"cluster": config.name, "tau_ms": config.tau_ms, "sites": sites})


def _answer(status: pb.StatusReply | str) -> dict[str, Any]:
    if isinstance(status, str):
        return {"answers": False, "reason": status}
    return {"answers": True, **values(status)}


def values(message: Message) -> dict[str, Any]:
    """Every field of a message, also those at their defaults; one that is not set although it could be is null.

    Unlike protobuf's own JSON, 64-bit integers stay numbers.
    """
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_plain(item) for item in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return values(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
