import { Command } from 'commander'
import { listBranches } from '../resolve.ts'
import { list } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { columns } from './columns.ts'

export const listVerb = () =>
  new Command('list').description('List the branches of a project.').action(
    verb(async ({ call, project }: VerbSession<object>) => ({
      answer: await listBranches(call, (await project()).project_id),
      text: ({ branches }) => list(branches, columns(branches), 'No branches.'),
    })),
  )
