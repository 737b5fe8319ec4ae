import { existsSync } from 'node:fs'
import { join } from 'node:path'

/*
 * The image of a data directory: a file with an XFS filesystem, mounted in the data directory, in which files are
 * cloned by sharing their blocks. All directories between which stores are cloned or renamed lie in it; the data
 * directory has links to them.
 *
 *   plain ──init──▶ unfinished, directories set aside ──all copied, renamed to image.xfs──▶ image ──▶ those removed
 *
 * A kill before the rename leaves the directories that were set aside: the next start puts them back and removes the
 * unfinished image. After it the image counts, and the next start removes them.
 */
export interface ImagePlace {
  readonly dataDir: string
  readonly image: string
  readonly mountPoint: string
  /** The image while it is filled, and where it is mounted then. */
  readonly making: string
  readonly makingMount: string
  /** The lock of each change of the image and of its mount. */
  readonly lock: string
}

/** The directories of a data directory that lie in its image. */
const IN_IMAGE = ['branches', 'templates', 'trash', 'removed'] as const

export function placeOf(dataDir: string): ImagePlace {
  const image = join(dataDir, 'image.xfs')
  return {
    dataDir,
    image,
    mountPoint: join(dataDir, 'image'),
    making: `${image}.making`,
    makingMount: join(dataDir, 'image.making'),
    lock: join(dataDir, 'image.lock'),
  }
}

/** A directory of the data directory: its link, where it lies in a mounted image, and where init sets it aside. */
export interface Moved {
  readonly link: string
  readonly target: string
  readonly aside: string
  readonly name: string
}

export const movedIn = ({ dataDir }: ImagePlace): Moved[] =>
  IN_IMAGE.map((name) => ({
    name,
    link: join(dataDir, name),
    // Relative: a data directory may be moved.
    target: join('image', name),
    aside: join(dataDir, `${name}.aside`),
  }))

export const hasImage = ({ image }: ImagePlace): boolean => existsSync(image)
