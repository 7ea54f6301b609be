package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"fairlead.dev/fairlead/internal/lab"
	"fairlead.dev/fairlead/internal/lab/scenario"
)

// workers are those of the stack.
const workers = 2

// A stage is a folder with the programs of a stack, of which ctl and the worker are replaced.
type stage struct {
	dir string
	lab *lab.Lab
}

func newStage(repo, old string) (*stage, error) {
	dir, err := os.MkdirTemp("/var/tmp", "fairlead-upgrade-")
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir}
	bin := filepath.Join(dir, "bin")
	err = errors.Join(os.Mkdir(bin, 0o755),
		lab.PlaceProgram(filepath.Join(old, "ctl"), filepath.Join(bin, "ctl")),
		lab.PlaceProgram(filepath.Join(old, "worker"), filepath.Join(bin, "worker")),
		lab.PlaceProgram(filepath.Join(repo, "bin", "devserver"), filepath.Join(bin, "devserver")),
		os.Symlink(filepath.Join(repo, ".tools"), filepath.Join(dir, ".tools")))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gather the programs of N: %w", err), s.Close())
	}
	return s, nil
}

func (s *stage) Close() error { return os.RemoveAll(s.dir) }

// replace replaces the program of the workers, and stops workers one by one until n run the new
// one. The stack starts them again.
func (s *stage) replace(ctx context.Context, program string, n int) error {
	to := filepath.Join(s.dir, "bin", "worker")
	if err := lab.PlaceProgram(program, to); err != nil {
		return err
	}
	for {
		others, ours, err := s.running(ctx, to)
		switch {
		case err != nil:
			return err
		case ours >= n:
			return nil
		case len(others) == 0:
			return fmt.Errorf("%d workers run %s, and no other one is there to replace", ours, program)
		}
		if err := syscall.Kill(others[0], syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		if err := scenario.Again(ctx, "a worker runs the new program", func(ctx context.Context) error {
			_, now, err := s.running(ctx, to)
			if err == nil && now <= ours {
				err = fmt.Errorf("%d workers run it", now)
			}
			return err
		}); err != nil {
			return err
		}
	}
}

// running returns the workers that run another program than a file, and counts those that run it.
// Only workers that answer are known.
func (s *stage) running(ctx context.Context, file string) (others []int, ours int, err error) {
	is, err := os.Stat(file)
	if err != nil {
		return nil, 0, err
	}
	var st lab.Status
	if err := s.lab.JSON(ctx, &st, "status"); err != nil {
		return nil, 0, err
	}
	for _, w := range st.Workers {
		runs, err := os.Stat(filepath.Join("/proc", strconv.Itoa(w.PID), "exe"))
		switch {
		case errors.Is(err, os.ErrNotExist): // it has ended
		case err != nil:
			return nil, 0, err
		case os.SameFile(is, runs):
			ours++
		default:
			others = append(others, w.PID)
		}
	}
	return others, ours, nil
}
