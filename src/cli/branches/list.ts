import { Command } from 'commander'
import { listBranches } from '../resolve.ts'
import { list } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { columns, DELETED } from './columns.ts'

export const listVerb = () =>
  new Command('list')
    .description('List the branches of a project.')
    .option('--deleted', 'only deleted ones that can be recovered: neap branches recover')
    .action(
      verb(async ({ call, flags: { deleted = false }, project }: VerbSession<Listed>) => {
        const answer = await listBranches(call, (await project()).project_id, { include_deleted: deleted })
        if (!deleted) return { answer, text: ({ branches }) => list(branches, columns(branches), 'No branches.') }
        const branches = answer.branches.filter(({ recovery }) => recovery)
        return {
          answer: { ...answer, branches },
          text: (shown) => list(shown.branches, DELETED, 'No branches that could be recovered.'),
        }
      }),
    )

interface Listed {
  readonly deleted?: boolean
}
