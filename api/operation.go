package api

// SetLogLevel asks a server to log this level and above, until it stops.
type SetLogLevel struct {
	Level string `json:"level"` // debug, info, warn or error
}

// LogLevel says what a server logs from now on, and what it logged.
type LogLevel struct {
	Level  string `json:"level"`
	Before string `json:"before"`
}
