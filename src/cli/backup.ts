import { setTimeout as sleep } from 'node:timers/promises'
import { Command, InvalidArgumentError, type Option } from 'commander'
import { bytesText } from '../bytes.ts'
import { type Config, loadConfig, type Overrides } from '../config.ts'
import type { BackupDrill, BackupReport, ListedBackup, StoreBackup, Verified } from '../supervisor/backups.ts'
import { print } from './print.ts'
import { accessOf, givenPassphrase, reachesRepository, type RepositoryFlags } from './repository.ts'
import { card, type Columns, duration, list, moment, printable } from './table.ts'

interface Flags extends Overrides {
  readonly json?: boolean
}

/** `neap backup`: backups of an installation in a repository elsewhere. */
export function backupCommand(dataDir: Option, env: NodeJS.ProcessEnv): Command {
  const command = new Command('backup')
    .summary('Back up all of this Neap to a repository elsewhere, and see what is there.')
    .description(
      'Back up all of this Neap to a directory, to a bucket or by SFTP: branches, catalog and keys, encrypted, ' +
        'by pgBackRest 2.55 or newer. What is committed is there within a minute.',
    )
    .addOption(dataDir)
  addInit(command, env)
  command
    .command('status')
    .summary('Show what the repository has of each branch.')
    .description('Show what the repository has of each branch.')
    .option('--json', 'print JSON')
    .action(async (_flags: object, self: Command) => {
      const { readBackups } = await import('../supervisor/backups.ts')
      const flags = self.optsWithGlobals<Flags>()
      const report = await readBackups(loadConfig(flags))
      print(flags.json ? JSON.stringify(report) : shown(report))
    })
  command
    .command('run')
    .summary('Write all that there is to the repository now, and wait for it.')
    .description(
      'Write all that there is to the repository now, and wait for it. ' +
        'A branch that was written to since its last backup gets another one.',
    )
    .action(async (_flags: object, self: Command) => run(loadConfig(self.optsWithGlobals<Flags>())))
  command
    .command('list')
    .summary('List the backups in the repository.')
    .description('List the backups in the repository. Moments between them are there too.')
    .option('--json', 'print JSON')
    .action(async (_flags: object, self: Command) => {
      const { listAllBackups } = await import('../supervisor/backups.ts')
      const flags = self.optsWithGlobals<Flags>()
      const backups = await listAllBackups(loadConfig(flags))
      print(flags.json ? JSON.stringify({ backups }) : list(backups, BACKUPS, 'There are no backups yet.'))
    })
  addVerify(command)
  addDrill(command)
  command
    .command('end')
    .summary('Make no more backups.')
    .description('Make no more backups, and forget the repository. What is there stays.')
    .action(async (_flags: object, self: Command) => {
      const { endBackups } = await import('../supervisor/backups.ts')
      await endBackups(loadConfig(self.optsWithGlobals<Flags>()))
      note('No more backups are made.')
    })
  return command
}

function addInit(command: Command, env: NodeJS.ProcessEnv): void {
  reachesRepository(command.command('init'))
    .summary('Begin backups to a repository.')
    .description(
      'Begin backups to a directory, to a bucket (with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) or by SFTP, ' +
        'while Neap runs. All is encrypted under a passphrase, which is made and shown unless you give one.',
    )
    .argument('<repository>', '/mnt/backups, s3://bucket/path or sftp://user@host/path')
    .option('--keep-days <days>', 'for how long backups are kept (default: 7)', wholeDays)
    .action(async (location: string, _flags: object, self: Command) => {
      const { initBackups } = await import('../supervisor/backups.ts')
      const flags = self.optsWithGlobals<Overrides & RepositoryFlags & { keepDays?: number }>()
      const given = await givenPassphrase(flags, env)
      const options = { ...accessOf(flags, env), passphrase: given, keptDays: flags.keepDays }
      const made = await initBackups(loadConfig(flags), location, options)
      note(`Backups to ${location} begin now: npx neap backup status`)
      if (given !== undefined) return
      note('Keep this passphrase elsewhere: without it nothing in the repository can be read.')
      print(made)
    })
}

function wholeDays(text: string): number {
  const days = Number(text)
  if (!Number.isInteger(days) || days < 1 || days > 3_650)
    throw new InvalidArgumentError('It takes days from 1 to 3650.')
  return days
}

function addVerify(command: Command): void {
  command
    .command('verify')
    .summary('Read all that the repository has, and check it.')
    .description(
      'Read all backups, all WAL and the keys in the repository, and check them. ' +
        'Ends with 1 if some are damaged or missing.',
    )
    .option('--json', 'print JSON')
    .action(async (_flags: object, self: Command) => {
      const { verifyBackups } = await import('../supervisor/backups.ts')
      const flags = self.optsWithGlobals<Flags>()
      const all: Verified[] = []
      const isGood = await verifyBackups(loadConfig(flags), (verified) => {
        all.push(verified)
        if (!flags.json) print(`${verified.name}: ${verified.is_good ? 'good' : `damaged\n${verified.report}`}`)
      })
      if (flags.json) print(JSON.stringify({ is_good: isGood, verified: all }))
      if (!isGood) process.exitCode = 1
    })
}

function addDrill(command: Command): void {
  command
    .command('drill')
    .summary('Restore the newest backup of a branch beside it, and check it.')
    .description(
      'Fetch the newest backup of a branch with all WAL after it, recover it beside the branch, check all tables and ' +
        'indexes, count the rows, and remove it again. Protected branches have a drill once a day.',
    )
    .argument('[branch]', 'its name or id; may be left out where there is one branch')
    .option('--json', 'print JSON')
    .action(async (branch: string | undefined, _flags: object, self: Command) => {
      const { makeDrill } = await import('../supervisor/backups.ts')
      const flags = self.optsWithGlobals<Flags>()
      const drill = await makeDrill(loadConfig(flags), branch, note)
      print(flags.json ? JSON.stringify(drill) : card(drill, DRILL))
      if (drill.error !== null) process.exitCode = 1
    })
}

const LOOK_MS = 500

async function run(config: Config): Promise<void> {
  const { readBackups, requestAllBackups } = await import('../supervisor/backups.ts')
  const since = Date.now()
  await requestAllBackups(config)
  for (let said = ''; ; await sleep(LOOK_MS)) {
    const { catalog, catalog_error: failed, branches } = await readBackups(config)
    const waiting = branches.filter(({ is_due }) => is_due)
    const line = `${branches.length - waiting.length} of ${branches.length} branches are in the repository.`
    if (line !== said) note(line)
    said = line
    if (waiting.length === 0 && Date.parse(catalog?.pushed_at ?? '') > since) return
    if (failed && Date.parse(failed.at) > since) {
      note(`the catalog: ${failed.error}`)
      process.exitCode = 1
      return
    }
    if (waiting.length === 0 || waiting.some(({ error }) => error === null)) continue
    for (const { branch_name, error } of waiting) note(`${branch_name}: ${error}`)
    process.exitCode = 1
    return
  }
}

const note = (line: string): void => void process.stderr.write(`${line}\n`)

function shown({ catalog, catalog_error: failed, branches }: BackupReport): string {
  const saved = catalog && `The catalog is saved until ${moment(catalog.pushed_at ?? catalog.made_at)}.`
  return [
    saved ?? 'The catalog has no backup yet: until then nothing can be restored.',
    ...(failed ? [`It could not be backed up at ${moment(failed.at)}: ${printable(failed.error)}`] : []),
    list(branches, STATUS, 'There are no branches yet.'),
  ].join('\n')
}

const STATUS: Columns<StoreBackup> = {
  BRANCH: ({ branch_name }) => branch_name,
  PROJECT: ({ project_id }) => project_id,
  BACKUP: ({ made_at }) => moment(made_at),
  'SAVED UNTIL': ({ pushed_at, is_behind }) => (is_behind ? moment(pushed_at) : 'its last change'),
  SIZE: ({ bytes }) => (bytes === null ? undefined : bytesText(bytes)),
  ERROR: ({ error }) => error ?? undefined,
}

const DRILL: Columns<BackupDrill> = {
  Result: ({ error }) => error ?? 'good',
  Backup: ({ label }) => label ?? undefined,
  'Saved until': ({ saved_until }) => moment(saved_until),
  Databases: ({ databases }) => databases?.toString(),
  Tables: ({ tables }) => tables?.toString(),
  Indexes: ({ indexes }) => indexes?.toString(),
  Rows: ({ row_count }) => row_count?.toString(),
  Took: ({ started_at, finished_at }) => duration(Date.parse(finished_at ?? '') - Date.parse(started_at ?? '')),
}

const BACKUPS: Columns<ListedBackup> = {
  BRANCH: ({ branch_name }) => branch_name,
  PROJECT: ({ project_id }) => project_id,
  BACKUP: ({ label }) => label,
  MADE: ({ made_at }) => moment(made_at),
  AGE: ({ made_at }) => duration(Date.now() - Date.parse(made_at)),
  SIZE: ({ bytes }) => bytesText(bytes),
  STORED: ({ stored_bytes }) => bytesText(stored_bytes),
}
