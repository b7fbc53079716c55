package engine

import "time"

// Shared returns the fingerprints of the settings that servers share.
func (e *Engine) Shared() map[string]string { return e.shared() }

func init() { lookEach = time.Second }
