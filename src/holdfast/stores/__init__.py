"""Where journals are kept. Each module is one backend behind `holdfast.store.Store`."""
