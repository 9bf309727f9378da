"""Send a run's metrics to a tracker."""
