# none: no setting and no module of the package counts a client's connections.
