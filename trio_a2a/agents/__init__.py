"""Running user code: what an agent is given, how it reports, and the boundary around it."""

from .context import RequestContext as RequestContext
from .updater import ArtifactWriter as ArtifactWriter, TaskUpdater as TaskUpdater

__all__ = ["ArtifactWriter", "RequestContext", "TaskUpdater"]
