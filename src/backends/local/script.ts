import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The program of all effects. Read once: an upgrade may replace the file under a control plane that runs. */
export const SCRIPT = ['walls.pl', 'egress.pl', 'effect.pl']
  .map((name) => readFileSync(fileURLToPath(new URL(name, import.meta.url)), 'utf8'))
  .join('')

/** The environment of everything started here: nothing of Neap's own, which holds secrets. */
export const BARE_ENVIRONMENT = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
}
