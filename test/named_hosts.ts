import { spawnSync } from 'node:child_process'

/* Programs that find other names in /etc/hosts than the rest of the machine: each in a mount namespace, where a file stands for it. */

const tried = spawnSync('unshare', ['--mount', 'true'], { encoding: 'utf8' })

// Run with the file as $0 and the command as what follows.
const AS_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'

export const withNames = {
  /** For the `skip` of a test: why a program cannot have names of its own here. */
  skip: tried.status !== 0 && `no mount namespace: ${tried.error?.message ?? tried.stderr.trim()}`,
  /** A command that becomes the one that follows it, for which the file `hosts` is /etc/hosts. Lines that are added later count. */
  through: (hosts: string): string[] => ['unshare', '--mount', 'sh', '-c', AS_HOSTS, hosts],
}
