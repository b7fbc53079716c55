// Package disk writes files that only their owner may read and that survive a
// crash of the machine.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// private is the mode of every file that Sluice writes: orders, buyers' ids and
// secrets are in them.
const private fs.FileMode = 0o600

// Flush makes what is written to a file or folder durable. Tests replace it to
// see what is flushed, and when: only a crash of the machine shows it otherwise.
var Flush = (*os.File).Sync

// SyncDir makes the creation, renaming and removal of files in the folder
// durable. On Windows it does nothing: a folder cannot be flushed there, and
// NTFS keeps these changes in a journal of its own.
func SyncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(Flush(dir), dir.Close())
}

// Private makes the file of a database readable by its owner alone, whatever the
// umask is, and creates it empty if it is missing. The files that SQLite keeps
// beside a database (-wal, -shm, -journal) get the mode of the database, also if they
// are there.
func Private(path string) error {
	// A file that is there is not opened: closing it would end the locks that this
	// process has on it, those of a database that it has open already.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, private)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := Restrict(path + suffix); err != nil {
			return err
		}
	}
	return nil
}

// Why returns the error of a database that could not be opened, with the system's
// own word first if the disk has no room for what SQLite makes to open a file: its
// "disk I/O error" does not say that.
func Why(path string, err error) error {
	if err == nil {
		return nil
	}
	file, failed := os.CreateTemp(filepath.Dir(path), ".room-*")
	if failed == nil {
		_, failed = file.Write(make([]byte, 64<<10))
		file.Close()           //nolint:errcheck // it is removed
		os.Remove(file.Name()) //nolint:errcheck // likewise
	}
	if failed != nil {
		return fmt.Errorf("%w (%w)", failed, err)
	}
	return err
}

// reserve is what a database may need at any moment, for one large batch.
const reserve = 1 << 20

// Room is an error if the disk that a file is on has next to none. What is written now
// and then may still fit, since the files that a database has are used again; what is
// sold would not. A quota is not seen here.
func Room(path string) error {
	if n, known := left(path); known && n < reserve {
		return fmt.Errorf("the disk of %s is full but for %d kB", path, n>>10)
	}
	return nil
}

// few is when a disk is nearly full.
const few = 1 << 30

// Low is an error if the disk that a file is on is nearly full.
func Low(path string) error {
	if n, known := left(path); known && n < few {
		return fmt.Errorf("the disk of %s is full but for %d MB", path, n>>20)
	}
	return nil
}

// Restrict takes every right but the owner's from a file, if there is one. It
// leaves a file alone that is private already: it may be another user's, or on
// a file system that cannot be written to.
func Restrict(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !loose(info, 0o077):
		return nil
	}
	return os.Chmod(path, private)
}

// loose reports whether others than the owner have some of the rights. Windows
// has access lists instead, which the mode does not show.
func loose(info fs.FileInfo, rights fs.FileMode) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&rights != 0
}

// LooseFolder reports whether others than its owner may replace or remove the
// folder's files, private as they are. Who may only look finds names.
func LooseFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && loose(info, 0o022)
}

// Write replaces a file so that after a crash it holds the old content or the
// new, whole. Only its owner may read it.
func Write(path, content string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // no longer there once renamed
	_, err = file.WriteString(content)
	if err == nil {
		err = Flush(file)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}
