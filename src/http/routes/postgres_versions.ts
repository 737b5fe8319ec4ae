import { Type } from 'typebox'
import { listOffered } from '../../catalog/host.ts'
import { route } from '../route.ts'

export const listPostgresVersions = route('GET /postgres_versions', {
  summary: 'List the versions of Postgres that are installed, with the extensions that roles may create',
  tag: 'Neap',
  anyProject: true,
  returns: Type.Object({
    postgres_versions: Type.Array(
      Type.Object({
        version: Type.Integer(),
        extensions: Type.Array(Type.Object({ name: Type.String(), default_version: Type.String() })),
      }),
    ),
  }),
  errors: [],
}).handle(async (_request, { db }) => ({ postgres_versions: await listOffered(db) }))
