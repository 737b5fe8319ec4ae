/** Every wall, with its description. */
export const WALLS = {
  identity: 'a user of its own, so that permissions of files and processes keep computes apart',
  files:
    'a root directory of its own: its data, its programs read-only, a private /tmp, ' +
    'nothing writable that can be executed',
  processes: 'process ids of its own: it sees and signals no other process, and none of its own outlives it',
  network: 'a network of its own: no port on this machine, no way to this machine or to other networks',
  ipc: 'shared memory and queues of its own',
  calls: 'a filter of system calls, and no new privileges',
  limits: 'limits on processes, open files and core dumps',
} as const

export type Wall = keyof typeof WALLS

/** The walls that the operator has turned off. */
export const unwanted = ({ computeNetwork }: { computeNetwork: 'none' | 'host' }): Wall[] =>
  computeNetwork === 'host' ? ['network'] : []

/** The walls that are not in `has`. */
export const missingFrom = (has: readonly Wall[]): Wall[] =>
  (Object.keys(WALLS) as Wall[]).filter((wall) => !has.includes(wall))

/**
 * Lists the missing walls of computes, one line each, and egress and the limits of their sizes if they are missing.
 * Empty if none is missing.
 */
export function wallTable(missing: readonly string[], egressMissing: string | null, limitError: string | null): string {
  const lines = missing.map((wall) => `  ${wall.padEnd(10)}${WALLS[wall as Wall]}`)
  if (egressMissing !== null)
    lines.push(`  ${'egress'.padEnd(10)}public addresses, for projects with enable_egress: ${egressMissing}`)
  if (limitError !== null)
    lines.push(`  ${'size'.padEnd(10)}CPU and memory by their size (docs/sizes.md): ${limitError}`)
  if (lines.length === 0) return ''
  return ['Computes are without these (docs/walls.md says what each needs):', ...lines].join('\n')
}
