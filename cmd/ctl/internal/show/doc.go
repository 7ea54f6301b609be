// Package show writes what several commands show. It makes no requests.
package show
