"""The reducer under the name by which the stream core knows it; it lies below the stores, which fold with it too."""

from ..reducer import MAY_FOLLOW, ArtifactLog, Grown, WorkingTask, failure_update, reduce

__all__ = ["MAY_FOLLOW", "ArtifactLog", "Grown", "WorkingTask", "failure_update", "reduce"]
