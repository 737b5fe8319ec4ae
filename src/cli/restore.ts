import { Command, type Option } from 'commander'
import { loadConfig, type Overrides } from '../config.ts'
import { UsageError } from '../errors.ts'
import type { Restored } from '../supervisor/restore_machine.ts'
import { terminalProgress } from '../supervisor/progress.ts'
import { print } from './print.ts'
import { accessOf, givenPassphrase, reachesRepository, type RepositoryFlags } from './repository.ts'
import { moment } from './table.ts'
import { pastTime } from './values.ts'

interface Flags extends Overrides, RepositoryFlags {
  readonly from: string
  readonly series?: string
  readonly project?: string
  readonly branch?: string
  readonly at?: string
  readonly json?: boolean
}

/** `neap restore`: a lost machine. */
export function restoreCommand(dataDir: Option, env: NodeJS.ProcessEnv): Command {
  return reachesRepository(new Command('restore'))
    .summary('Restore a Neap from the repository of its backups, on an empty machine.')
    .description(
      'Restore a Neap to an empty data directory, from the repository that neap backup has written: ' +
        'all branches under the same ids, hosts and passwords, or a part, as it is or as it was. ' +
        'If it is interrupted, run it again.',
    )
    .addOption(dataDir)
    .requiredOption('--from <repository>', '/mnt/backups, s3://bucket/path or sftp://user@host/path')
    .option('--series <series>', 'which backups, where several machines wrote to the repository; else the latest')
    .option('--project <project>', 'only this project, by id or name')
    .option('--branch <branch>', 'only this branch, by id or name')
    .option('--at <moment>', 'as it was at a moment like 2027-01-31T12:00:00Z, or some time ago like 2h', pastTime)
    .option('--json', 'print JSON')
    .action(async (flags: Flags) => {
      const { restoreMachine } = await import('../supervisor/restore_machine.ts')
      const passphrase = await givenPassphrase(flags, env)
      if (passphrase === undefined)
        throw new UsageError("Give the repository's passphrase in NEAP_BACKUP_PASSPHRASE or by --passphrase-file.")
      const { from: location, series, project, branch, at } = flags
      const options = { ...accessOf(flags, env), location, passphrase, selection: { series, project, branch, at } }
      const restored = await restoreMachine(loadConfig(flags), options, terminalProgress())
      print(flags.json ? JSON.stringify(restored) : shown(restored))
      if (isLost(restored)) process.exitCode = 1
    })
}

/** Whether no branch of those that were asked for is there. */
const isLost = ({ stores, lost }: Restored): boolean => stores.length === 0 && lost.length > 0

function shown(restored: Restored): string {
  const { hostname, until, stores, lost } = restored
  const lines = [`The Neap of ${hostname} is restored, as it was at ${moment(until)}: ${stores.length} branches.`]
  for (const { branch_name, branch_id, until: saved } of stores)
    lines.push(`  ${branch_name} (${branch_id}) as of ${moment(saved)}`)
  for (const { branch_name, branch_id, reason } of lost)
    lines.push(`  ${branch_name} (${branch_id}) is lost: ${reason}`)
  lines.push(isLost(restored) ? 'No branch is there.' : 'Start it with: npx neap up')
  return lines.join('\n')
}
