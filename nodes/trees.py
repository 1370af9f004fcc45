"""World models as blobs: a manifest and segments of nodes, so that a revision costs what changed."""

from typing import Any

from checkpoints.blobs import BlobStore
from graph.state import TreeRef
from graph.world_model import Node, WorldModel

SEGMENT = 32
"""Nodes per segment."""


class TreeStore:
    """Saves and loads world models; remembers the last ones, since a round reads what the round before wrote."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._models: dict[str, WorldModel] = {}
        self._segments: dict[str, tuple[Node, ...]] = {}
        """Digest -> nodes of the last saved or loaded tree's segments."""

    def save(self, model: WorldModel) -> TreeRef:
        """Store `model` and return its reference."""
        written = {nodes: digest for digest, nodes in self._by_identity().items()}
        segments: dict[str, tuple[Node, ...]] = {}
        digests: list[str] = []
        for start in range(0, len(model.nodes), SEGMENT):
            nodes = model.nodes[start : start + SEGMENT]
            digest = written.get(tuple(map(id, nodes)))
            if digest is None:
                digest = self._blobs.put_json([node.model_dump(mode="json", exclude_defaults=True) for node in nodes])
            segments[digest] = nodes
            digests.append(digest)
        head = model.model_dump(mode="json", exclude={"nodes"})
        blob = self._blobs.put_json({"head": head, "segments": digests})
        self._remember(blob, model, segments)
        return TreeRef(blob=blob, revision=model.revision)

    def known(self, ref: TreeRef) -> WorldModel | None:
        """Return the tree when it is one of the last saved or loaded, else None; reads nothing."""
        return self._models.get(ref["blob"])

    def load(self, ref: TreeRef) -> WorldModel:
        """Return the tree, whole and validated. Raises StoreError when a blob is missing or damaged."""
        known = self.known(ref)
        if known is not None:
            return known
        manifest: dict[str, Any] = self._blobs.get_json(ref["blob"])
        segments = {
            digest: tuple(Node.model_validate(node) for node in self._blobs.get_json(digest))
            for digest in manifest["segments"]
        }
        nodes = tuple(node for digest in manifest["segments"] for node in segments[digest])
        model = WorldModel.model_validate({**manifest["head"], "nodes": nodes})
        self._remember(ref["blob"], model, segments)
        return model

    def _by_identity(self) -> dict[str, tuple[int, ...]]:
        return {digest: tuple(map(id, nodes)) for digest, nodes in self._segments.items()}

    def _remember(self, blob: str, model: WorldModel, segments: dict[str, tuple[Node, ...]]) -> None:
        if len(self._models) > 4:
            self._models.pop(next(iter(self._models)))
        self._models[blob] = model
        self._segments = segments
