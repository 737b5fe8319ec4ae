import type { Checkpoint } from './control_file.ts'
import { lsnText, segmentAt } from './wal.ts'

/**
 * The file `backup_label` of a copy whose recovery begins at this checkpoint, and ends where its control file says
 * (xlogbackup.c, build_backup_content). As `label_of` in clone.pl.
 */
export const backupLabel = ({ timeline, redo, position }: Checkpoint): string =>
  `START WAL LOCATION: ${lsnText(redo)} (file ${segmentAt(timeline, redo)})\n` +
  `CHECKPOINT LOCATION: ${lsnText(position)}\n` +
  'BACKUP METHOD: streamed\nBACKUP FROM: standby\nLABEL: neap\n' +
  `START TIMELINE: ${parseInt(timeline, 16)}\n`
