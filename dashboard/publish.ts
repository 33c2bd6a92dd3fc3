import { renameSync, rmSync } from 'node:fs'

/** Gives a finished build its name. Another process may have published the same build meanwhile; a complete one stays. */
export const publish = (making: string, folder: string, isComplete: () => boolean): void => {
  try {
    renameSync(making, folder)
  } catch {
    // The folder exists.
    if (isComplete()) return rmSync(making, { recursive: true, force: true })
    rmSync(folder, { recursive: true, force: true })
    renameSync(making, folder)
  }
}
