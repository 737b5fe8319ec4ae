import { type Setting, setting, whole } from './setting_kinds.ts'

const mebibytes = { parse: whole(0, 1_000_000_000), expects: 'a number of MiB' }

/** The settings of src/settings.ts that are about the disk of the stores. */
export const DISK_SETTINGS: Readonly<Record<'diskReserveMib' | 'imageMaxMb', Setting<number | undefined>>> = {
  diskReserveMib: setting<number | undefined>({
    env: 'NEAP_DISK_RESERVE',
    ...mebibytes,
    about:
      'While less of the disk of the data directory is free, computes refuse writes. ' +
      'By default 512 MiB, or a twentieth of a smaller disk.',
    fallback: () => undefined,
  }),
  imageMaxMb: setting<number | undefined>({
    env: 'NEAP_IMAGE_MAX_MB',
    ...mebibytes,
    about:
      'How much of the disk below an image may take in MiB when it grows by itself (0: it does not grow). ' +
      'By default all but a tenth of that disk.',
    fallback: () => undefined,
  }),
}
