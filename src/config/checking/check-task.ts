/** The task and the result of a check of a configuration. Plain data. */
import type { AccountRecords } from '../../core/accounts.ts'
import type { Env } from '../env.ts'
import type { Problem } from '../problem.ts'
import type { SecretFiles } from '../secret-files.ts'
import type { Tree } from '../tree.ts'

/** `folder`: the one with `.env` and `headgate.yaml`. `stored`: records of the database; null: it cannot be read. */
export type CheckTask = {
  readonly text: string
  readonly env: Env
  readonly folder: string
  readonly stored: AccountRecords | null
}

/** `changes`: paths, compared with the file on disk; null: that file has problems. */
export type CheckedText =
  | { readonly ok: false; readonly problems: readonly Problem[]; readonly warnings: readonly string[] }
  | {
      readonly ok: true
      readonly warnings: readonly string[]
      readonly changes: readonly string[] | null
      /** What the configuration is made of; null: it is too large to be made while requests wait. */
      readonly parts: CheckedParts | null
    }

/** `env`, `files`: with placeholders. */
export type CheckedParts = {
  readonly tree: Omit<Extract<Tree, { ok: true }>, 'placeOf'>
  readonly env: Env
  readonly files: SecretFiles
}

/** The name that problems give for the file. */
export const NAME = 'headgate.yaml'
