package httpapi

import (
	"context"
	"net/http"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/protocol"
)

type seedsInput struct {
	Pool string `query:"pool" maxLength:"63" doc:"only those in this pool"`
	Paged
}

// OfSeed names a seed.
type OfSeed struct {
	Name string `path:"name" maxLength:"63" doc:"seed"`
}

func (a *API) addSeeds() {
	may := func(ctx context.Context, name string) bool {
		return a.records.May(ctx, access.SeedRead, access.Object{Seed: name})
	}
	add(a, spot{method: http.MethodGet, path: "/v1/seeds", id: "listSeeds", summary: "List seeds: health, usage and who holds them, never a secret", verb: access.SeedRead, begins: true},
		func(ctx context.Context, in *seedsInput) (*Body[Page[protocol.SeedView]], error) {
			list, err := a.sessions.Seeds(ctx, in.Pool, func(name string) bool { return may(ctx, name) })
			if err != nil {
				return nil, err
			}
			return answer(pageOf(in.Paged, "seeds "+in.Pool, list, func(v protocol.SeedView) string { return v.Name }))
		})
	add(a, spot{method: http.MethodGet, path: "/v1/seeds/{name}", id: "showSeed", summary: "Show what a seed holds, never its secrets", verb: access.SeedRead, begins: true},
		func(ctx context.Context, in *OfSeed) (*Body[protocol.SeedView], error) {
			if !may(ctx, in.Name) {
				return nil, forbidden("seed "+in.Name, access.SeedRead)
			}
			return answer(a.sessions.Seed(ctx, in.Name))
		})
}
