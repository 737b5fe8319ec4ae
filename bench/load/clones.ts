import { envOf, type Neap, neapRun, newDataDir, startNeap } from '../../test/neap.ts'

/** Starts a Neap whose branches share blocks, in an image if the user is root; else on the store that there is. */
export async function startWithClones(mib: number, env?: NodeJS.ProcessEnv): Promise<Neap> {
  const dataDir = newDataDir()
  if (process.getuid?.() === 0) {
    // Room for the data, their WAL, and pages that updates rewrite.
    const size = `${Math.ceil((mib * 5) / 1024) + 6}G`
    const made = await neapRun(['storage', 'init', '--size', size], envOf(dataDir))
    if (made.code !== 0) throw new Error(made.stderr)
  }
  return startNeap({ dataDir, ...(env && { env }) })
}
