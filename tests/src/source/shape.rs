//! How large generated requests are.

/// The shape of a generated request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Metrics in a request, over all resources and scopes.
    pub metrics: usize,
    /// Data points of each metric.
    pub points: usize,
    /// Resources; the metrics are divided among them.
    pub resources: usize,
    /// Scopes within each resource.
    pub scopes: usize,
    /// Share of the metrics whose name tells the mock's default opinion to drop them; spread evenly.
    pub droppable_percent: usize,
}

impl Shape {
    /// With another share of droppable metrics.
    #[must_use]
    pub fn droppable(mut self, percent: usize) -> Self {
        self.droppable_percent = percent.min(100);
        self
    }

    /// Is the metric number `index` droppable? Exactly `index * percent / 100` of those before it are.
    pub(super) fn is_droppable(&self, index: usize) -> bool {
        (index + 1) * self.droppable_percent / 100 > index * self.droppable_percent / 100
    }
}

/// 100 metrics of 10 points, about 200 bytes a point.
pub fn shape_a() -> Shape {
    Shape {
        metrics: 100,
        points: 10,
        resources: 2,
        scopes: 2,
        droppable_percent: 50,
    }
}

/// 1,000 metrics of 1 point, about 295 bytes a point with its metric.
pub fn shape_b() -> Shape {
    Shape {
        metrics: 1_000,
        points: 1,
        resources: 4,
        scopes: 2,
        droppable_percent: 50,
    }
}

/// 1 metric of 10 points.
pub fn shape_d() -> Shape {
    Shape {
        metrics: 1,
        points: 10,
        resources: 1,
        scopes: 1,
        droppable_percent: 0,
    }
}
