import { readFileSync, statSync } from 'node:fs'
import { realpath, writeFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf, UsageError } from '../../errors.ts'
import type { ImagePlace } from './place.ts'
import { runTool } from './tool.ts'

/** Clones need no time of access, and stores no devices, programs or other users' rights. */
const OPTIONS = 'noatime,nodev,nosuid,noexec'

/**
 * Mounts an image. Repeatable. The same file never has two loop devices: the device that it has is
 * taken, also where it is mounted in another mount namespace, and the kernel shares one filesystem between the mounts.
 * Errors: UsageError, when another filesystem is mounted there, or the machine allows no mount.
 */
export async function mountImage(image: string, mountPoint: string): Promise<void> {
  const mounted = await mountedDevice(mountPoint)
  if (mounted !== undefined) {
    if ((await deviceOf(image)) === mounted) return
    throw new UsageError(`${mountPoint} is a mount of ${mounted}, not of ${image}: unmount it first.`)
  }
  try {
    // Buffered: with direct I/O on the disk below commits were slower (docs/decisions/0008-image.md).
    const device = (await runTool('losetup', ['--find', '--show', '--nooverlap', image])).trim()
    try {
      await keepReserved(device)
      await runTool('mount', ['-t', 'xfs', '-o', OPTIONS, '--make-private', device, mountPoint])
    } finally {
      // A device in use is released by its last unmount.
      await runTool('losetup', ['--detach', device])
    }
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(
      `${image} could not be mounted (${messageOf(error)}): see that this machine has loop devices and XFS. ` +
        `If a copy of it is mounted, give this one an id of its own: xfs_admin -U generate ${image}`,
    )
  }
}

/** Freed blocks stay the image's own: a discard, as by the timer of fstrim(8), would give them to the disk below. */
async function keepReserved(device: string): Promise<void> {
  // Where /sys is read-only, so is it for that timer.
  await writeFile(`/sys/block/${basename(device)}/queue/discard_max_bytes`, '0').catch(() => undefined)
}

/** A deletion that an end of Neap leaves running may have files of many extents to remove. */
const UNMOUNT_WAIT_MS = 30_000
const UNMOUNT_PAUSE_MS = 50

/** Unmounts the image there. Waits for processes that end, or delete files. Returns false when it stays in use. */
export async function unmountImage(mountPoint: string): Promise<boolean> {
  for (const until = performance.now() + UNMOUNT_WAIT_MS; ;) {
    if ((await mountedDevice(mountPoint)) === undefined) return true
    try {
      await runTool('umount', [mountPoint])
      return true
    } catch (error) {
      if (!/busy/.test(messageOf(error))) throw error
      if (performance.now() > until) return false
    }
    await sleep(UNMOUNT_PAUSE_MS)
  }
}

/** The loop device of an image; undefined without one. */
export async function deviceOf(image: string): Promise<string | undefined> {
  const devices = await runTool('losetup', ['--list', '--noheadings', '--output', 'NAME', '--associated', image])
  return devices.split('\n').find((line) => line !== '')
}

/** Releases the loop device of an image that is not mounted. */
export async function releaseDevice(image: string): Promise<void> {
  const device = await deviceOf(image)
  if (device !== undefined) await runTool('losetup', ['--detach', device])
}

/** The device that is mounted at a directory; undefined without a mount. */
async function mountedDevice(mountPoint: string): Promise<string | undefined> {
  const path = await realpath(mountPoint).catch(() => undefined)
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  // The latest mount covers earlier ones (proc_pid_mountinfo(5)).
  const line = lines.findLast((each) => each.split(' ')[4] === escaped(path ?? ''))
  return line?.split(' - ')[1]?.split(' ')[1]
}

const escaped = (path: string): string =>
  path.replaceAll(/[\\ \t\n]/g, (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`)

/** Whether the image is mounted in this mount namespace. */
export async function isMounted({ image, mountPoint }: ImagePlace): Promise<boolean> {
  const mounted = await mountedDevice(mountPoint)
  return mounted !== undefined && mounted === (await deviceOf(image))
}

/** The bytes of a file, and how many of them have blocks on the disk. */
export function spaceOf(file: string): { readonly bytes: number; readonly reserved: number } {
  const { size, blocks } = statSync(file)
  return { bytes: size, reserved: blocks * 512 }
}
