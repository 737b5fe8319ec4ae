import { Command } from 'commander'
import { UsageError } from '../../errors.ts'
import { listBranches } from '../resolve.ts'
import { card, printable } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { DETAILS, REQUIRED } from './columns.ts'

export const recoverVerb = () =>
  new Command('recover')
    .description('Bring a deleted branch back, with its endpoint. Those that can be: neap branches list --deleted')
    .addArgument(REQUIRED)
    .action(
      verb(async ({ call, project }: VerbSession<object>, asked: string) => {
        const { project_id } = await project()
        const { branches } = await listBranches(call, project_id, { include_deleted: true })
        // Of several with one name, the one that was deleted last.
        const deleted = branches.filter(({ recovery }) => recovery).sort(latestFirst)
        const found = deleted.find(({ id, name }) => id === asked || name === asked)
        if (!found)
          throw new UsageError(
            `There is no deleted branch ${printable(asked)} in the project ${project_id} that can be recovered. ` +
              `There are: ${deleted.map(({ id, name }) => `${printable(name)} (${id})`).join(', ') || 'none'}`,
          )
        const params = { project_id, branch_id: found.id }
        return {
          answer: await call('POST /projects/:project_id/branches/:branch_id/recover', { params }),
          text: (answer) => card(answer, DETAILS),
        }
      }),
    )

interface Deleted {
  readonly recovery?: { readonly deleted_at: string }
}

const latestFirst = (one: Deleted, other: Deleted): number =>
  (other.recovery?.deleted_at ?? '').localeCompare(one.recovery?.deleted_at ?? '')
