import { Command } from 'commander'
import { list } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { COLUMNS } from './columns.ts'

export const listVerb = () =>
  new Command('list').description('List the endpoints of a project.').action(
    verb(async ({ call, project }: VerbSession<object>) => ({
      answer: await call('GET /projects/:project_id/endpoints', { params: await project() }),
      text: ({ endpoints }) => list(endpoints, COLUMNS, 'No endpoints.'),
    })),
  )
