import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The program of all effects. Read once: an upgrade may replace the file while the control plane runs. */
export const SCRIPT = ['walls.pl', 'groups.pl', 'egress.pl', 'stop.pl', 'clone.pl', 'effect.pl']
  .map((name) => readFileSync(fileURLToPath(new URL(name, import.meta.url)), 'utf8'))
  .join('')

/** The environment of every process started here: without Neap's own variables, which hold secrets. */
export const BARE_ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
}
