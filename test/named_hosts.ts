import { spawnSync } from 'node:child_process'

/* Programs with a private /etc/hosts: each runs in a mount namespace where another file is mounted over it. */

const tried = spawnSync('unshare', ['--mount', 'true'], { encoding: 'utf8' })

// Run with the file as $0 and the command as $@.
const AS_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'

export const withNames = {
  /** For the `skip` of a test: why mount namespaces are not available here. */
  skip: tried.status !== 0 && `no mount namespace: ${tried.error?.message ?? tried.stderr.trim()}`,
  /**
   * A command prefix that runs the following command with the file `hosts` as /etc/hosts. Lines added later take
   * effect.
   */
  through: (hosts: string): string[] => ['unshare', '--mount', 'sh', '-c', AS_HOSTS, hosts],
}
