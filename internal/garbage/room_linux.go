package garbage

import "syscall"

// huge asks for huge pages where memory is used for the first time. Some systems have none.
func huge(memory []byte) { _ = syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }
