import { Type } from 'typebox'
import { route } from '../route.ts'

export const listRegions = route('GET /regions', {
  summary: 'The regions to create projects in: this Neap is one',
  tag: 'Region',
  anyProject: true,
  returns: Type.Object({
    regions: Type.Array(
      Type.Object({
        region_id: Type.String(),
        name: Type.String(),
        default: Type.Boolean(),
        geo_lat: Type.String(),
        geo_long: Type.String(),
      }),
    ),
  }),
  errors: [],
}).handle(async (_request, { config: { region } }) => ({
  regions: [{ region_id: region, name: region, default: true, geo_lat: '', geo_long: '' }],
}))
