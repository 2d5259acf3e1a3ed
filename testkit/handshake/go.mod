module shoal.test/handshake

go 1.25
