package ledgertest

import (
	"time"

	"github.com/anishathalye/porcupine"
)

// said is one operation of a written history, each after the one before.
type said struct {
	in  call
	out answer
}

// explained reports whether one order in time explains the history, of a sale
// with a single unit.
func explained(history []said) bool {
	var ops []porcupine.Operation
	for i, s := range history {
		op := porcupine.Operation{Input: s.in, Output: s.out, Call: int64(10 * i), Return: int64(10*i + 5)}
		if s.out.unknown {
			op.Return = time.Hour.Nanoseconds()
		}
		ops = append(ops, op)
	}
	return porcupine.CheckOperations(historyModel(1, 1), ops)
}
