import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { spawnGivingWay } from '../host/give_way.ts'
import { homeOf, type Layout } from '../host/layout.ts'
import { runTool } from './image/tool.ts'

/** The space of a store in bytes. */
export interface StoreSpace {
  readonly id: string
  /** Of all files. */
  readonly apparent_bytes: number
  /** Of their blocks, shared ones included. */
  readonly real_bytes: number
  /** Of the blocks that no other store and no template has. Null: the filesystem does not tell. */
  readonly own_bytes: number | null
  /** Of those, the ones of its history alone. */
  readonly history_bytes: number | null
  /** False where its project has too many extents: then its own blocks are at least so many. */
  readonly is_exact: boolean
}

/** The space of all stores of a host, in bytes. */
export interface MeasuredSpace {
  readonly stores: readonly StoreSpace[]
  /** By project: the blocks that several of its stores share, and no other store. */
  readonly sharedOf: ReadonlyMap<string, number>
  /** The blocks of all stores and templates, each counted once. */
  readonly real_bytes: number
}

const MEASURE = readFileSync(fileURLToPath(new URL('space.pl', import.meta.url)), 'utf8')

/**
 * Reads the extents of all files of stores, in a process of its own. Errors: the system's.
 * @param isCopied whether stores are made by a copy: asked where the filesystem does not tell which blocks are shared
 * @param stores with their projects, since blocks are shared within one
 * @param quietly at a low priority, with so much of a core (0.2); undefined: at once
 */
export async function measureSpace(
  layout: Layout,
  isCopied: () => Promise<boolean>,
  stores: readonly { readonly id: string; readonly project: string }[],
  quietly?: number,
): Promise<MeasuredSpace> {
  if (process.platform !== 'linux') return { stores: [], sharedOf: new Map(), real_bytes: 0 }
  const projects = [...new Set(stores.map(({ project }) => project))]
  const numberOf = new Map(projects.map((project, index) => [project, index + 1]))
  // Templates, removed directories and stores that the caller does not know share blocks with stores, too.
  const known = new Set(stores.map(({ id }) => homeOf(layout, id)))
  const places = [layout.templates, layout.trash, layout.branches]
  const others = (await Promise.all(places.map(namesIn))).flat().filter((path) => !known.has(path))
  const input = [
    ...stores.map(({ id, project }) => `${numberOf.get(project)} ${homeOf(layout, id)}`),
    ...others.map((path) => `0 ${path}`),
  ]
  const text = input.map((line) => `${line}\n`).join('')
  const output =
    quietly === undefined
      ? await runTool('perl', ['-e', MEASURE], text)
      : await runTool('perl', ['-e', MEASURE, String(quietly)], text, spawnGivingWay)
  const lines = output.trim().split('\n')
  const shared = lines.flatMap((line) => {
    const [, number, bytes] = /^project (\d+) (\d+)$/.exec(line) ?? []
    const project = projects[Number(number) - 1]
    return project === undefined ? [] : [[project, Number(bytes)] as const]
  })
  const isSilent = lines.slice(0, stores.length).some((line) => line.includes('-'))
  const ownsAll = isSilent && (await isCopied())
  return {
    stores: stores.map(({ id }, index) => spaceIn(id, lines[index] ?? '', ownsAll)),
    sharedOf: new Map(shared),
    real_bytes: Number(/^total (\d+)$/.exec(lines.at(-1) ?? '')?.[1] ?? 0),
  }
}

function spaceIn(id: string, line: string, ownsAll: boolean): StoreSpace {
  const [apparent, real, own, history, exact] = line.split(' ')
  // Copied files share no blocks.
  const silent = ownsAll ? Number(real) : null
  return {
    id,
    apparent_bytes: Number(apparent),
    real_bytes: Number(real),
    own_bytes: own === '-' ? silent : Number(own),
    history_bytes: history === '-' ? null : Number(history),
    is_exact: exact === '1',
  }
}

async function namesIn(directory: string): Promise<string[]> {
  return (await readdir(directory).catch(() => [])).map((name) => join(directory, name))
}
