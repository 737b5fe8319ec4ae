import { Command, type Option } from 'commander'
import { bytesText } from '../bytes.ts'
import { loadConfig, type Overrides } from '../config.ts'
import type { StorageReport, StoreSpace } from '../supervisor/store_image.ts'
import { print } from './print.ts'
import { type Columns, list } from './table.ts'
import { byteSize } from './bytes.ts'

interface Flags extends Overrides {
  readonly json?: boolean
}

/** `neap storage`: how branches are cloned on this machine, their space, and the image that clones them. */
export function storageCommand(dataDir: Option): Command {
  const command = new Command('storage')
    .summary('See how branches are cloned and their space; make an image that clones them.')
    .description('How branches are cloned on this machine, the space they take, and the image that clones them.')
    .addOption(dataDir)
  command
    .command('status')
    .summary('Show how branches are cloned, and what each takes and would free.')
    .description(
      'Show how branches are cloned and what each takes: the size of its files, their blocks on the disk, ' +
        'those that it shares with no other, which its deletion would free, and of those its history. ' +
        'Reads the extents of all files, now.',
    )
    .option('--json', 'print JSON')
    .action(async (_flags: object, self: Command) => {
      const { reportStorage } = await import('../supervisor/store_image.ts')
      const flags = self.optsWithGlobals<Flags>()
      const report = await reportStorage(loadConfig(flags))
      print(flags.json ? JSON.stringify(report) : shown(report))
    })
  command
    .command('init')
    .summary('Make an image in which branches are cloned, on a filesystem that cannot.')
    .description(
      'Make a file with an XFS filesystem in the data directory, whose space is reserved at once, ' +
        'and move all branches there: from then on they are cloned without a copy. ' +
        'Needs root, and that Neap does not run. ' +
        'If it is interrupted, the next start or init undoes or completes it.',
    )
    .option('--size <size>', 'its size, as 200G; by default half of what is free', byteSize)
    .action(async (_flags: object, self: Command) => {
      const { initStorage } = await import('../supervisor/store_image.ts')
      const flags = self.optsWithGlobals<Overrides & { size?: number }>()
      const bytes = await initStorage(loadConfig(flags), flags.size, note)
      print(`Branches are cloned from now on, in an image of ${bytesText(bytes)}: npx neap up`)
    })
  command
    .command('mount')
    .summary("Mount the image, for an ordinary user's Neap.")
    .description(
      "Mount the image, as root for an ordinary user's Neap after a boot. As root, neap up does it by itself.",
    )
    .action(async (_flags: object, self: Command) => {
      const { mountStorage } = await import('../supervisor/store_image.ts')
      const warning = await mountStorage(loadConfig(self.optsWithGlobals<Overrides>()))
      if (warning) note(warning)
    })
  command
    .command('grow')
    .summary('Make the image larger, while Neap runs or not.')
    .description('Make the image larger, while Neap runs or not. Also reserves again what a trim gave back.')
    .argument('<size>', 'its size then, as 300G', byteSize)
    .action(async (size: number, _flags: object, self: Command) => {
      const { growStorage } = await import('../supervisor/store_image.ts')
      await growStorage(loadConfig(self.optsWithGlobals<Overrides>()), size)
      print(`The image has ${bytesText(size)}.`)
    })
  command
    .command('trim')
    .summary('Give unused room of the image back to the disk below.')
    .description(
      'Give unused room of the image back to the disk below. The image counts it as used until neap storage grow.',
    )
    .option('--keep <size>', 'what is to stay free in the image', byteSize, 2 ** 30)
    .action(async (_flags: object, self: Command) => {
      const { trimStorage } = await import('../supervisor/store_image.ts')
      const flags = self.optsWithGlobals<Overrides & { keep: number }>()
      print(`The disk below has ${bytesText(await trimStorage(loadConfig(flags), flags.keep))} back.`)
    })
  return command
}

const note = (line: string): void => void process.stderr.write(`${line}\n`)

const MODES: Readonly<Record<StorageReport['mode'], string>> = {
  reflink: 'Branches are clones: this filesystem shares the blocks of files.',
  image: 'Branches are clones, in the image of the data directory.',
  copy: 'Branches are copied byte by byte: this filesystem cannot clone files.',
}

function shown({ mode, advice, image, disk, real_bytes, stores }: StorageReport): string {
  const lines = [MODES[mode]]
  if (advice) lines.push(advice)
  if (image)
    lines.push(
      `The image has ${bytesText(image.bytes)}, ${bytesText(image.free_bytes)} of it free; ` +
        `${bytesText(image.reserved_bytes)} are reserved on the disk below` +
        `${image.trimmed_bytes > 0 ? `, and ${bytesText(image.trimmed_bytes)} were given back` : ''}. ` +
        `It may grow by ${bytesText(image.growable_bytes)} by itself.`,
    )
  if (image?.problem) lines.push(image.problem)
  lines.push(`The disk of the data directory has ${bytesText(disk.free_bytes)} free.`)
  const apparent = stores.reduce((sum, { apparent_bytes: bytes }) => sum + bytes, 0)
  if (stores.length > 0)
    lines.push(
      `The files of all branches have ${bytesText(apparent)}; with templates they take ${bytesText(real_bytes)}.`,
    )
  lines.push(list(stores, COLUMNS, 'There are no branches yet.'))
  return lines.join('\n')
}

const COLUMNS: Columns<StoreSpace> = {
  STORE: ({ id }) => id,
  SIZE: ({ apparent_bytes }) => bytesText(apparent_bytes),
  'ON DISK': ({ real_bytes }) => bytesText(real_bytes),
  FREES: ({ own_bytes, is_exact }) =>
    own_bytes === null ? undefined : `${is_exact ? '' : '≥ '}${bytesText(own_bytes)}`,
  HISTORY: ({ history_bytes }) => (history_bytes === null ? undefined : bytesText(history_bytes)),
}
