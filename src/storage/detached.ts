import { closeSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { spawnEffect } from '../host/effect.ts'
import { openLog } from '../host/logs.ts'
import { withTimeout } from '../race.ts'

/** A call waits so long for a program, in seconds: most work on small stores takes less. */
const CAP_SECONDS = 0.5

/** The command line of a program beside a module. @param name without extension */
export const programBeside = (module: string, name: string): readonly string[] => [
  process.execPath,
  '--disable-warning=ExperimentalWarning',
  fileURLToPath(new URL(`${name}.ts`, module)),
]

interface Detached {
  /** Of the effect, with the command line of the program at its end. */
  readonly args: readonly string[]
  readonly input?: string
  readonly logFile: string
  readonly cacheDir: string
}

/**
 * Runs a program that outlives its caller, under the locks of an effect. Returns its exit code, null if it was killed,
 * and `late` if it still runs after half a second.
 */
export async function runDetached({ args, input = '', logFile, cacheDir }: Detached): Promise<number | null | 'late'> {
  const log = openLog(logFile)
  // The compile cache halves the run time of the program.
  const child = spawnEffect([...args], log.file, { NODE_COMPILE_CACHE: cacheDir })
  child.stdin?.end(input)
  closeSync(log.file)
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', resolve)
  })
  child.unref()
  return withTimeout(ended, CAP_SECONDS * 1000, 'late')
}

/** Throws the message that a program has left in a file, once. @param As the class of the error */
export function throwNoted(file: string, As: new (message: string) => Error = Error): void {
  if (!existsSync(file)) return
  const message = readFileSync(file, 'utf8')
  rmSync(file, { force: true })
  throw new As(message)
}
