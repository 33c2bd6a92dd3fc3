/** The last key set of each issuer in the data folder: a restart while the issuer is away continues with it. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { number, parseObject } from '../core/json.ts'
import type { KeySetPlace } from '../core/token-rule.ts'
import { type PublicKey, publicKeysOf } from '../policy/identity/choose-key.ts'
import { makeFolder } from '../storage/files/folder.ts'

/** `fetched`: ms since 1970. `fresh`: ms for which it counted as new then. */
export type KeptSet = { readonly keys: readonly PublicKey[]; readonly fetched: number; readonly fresh: number }

export type KeptSets = {
  /** Undefined: there is none, or it cannot be read. */
  read(place: KeySetPlace): KeptSet | undefined
  /** Rejects if it cannot be written. */
  write(place: KeySetPlace, set: KeptSet): Promise<void>
}

/** In `jwks` of the data folder. Workers write the same files, so each write replaces a whole file. */
export const keptSets = (dataDir: string): KeptSets => {
  const folder = join(dataDir, 'jwks')
  return {
    read(place) {
      try {
        const kept = parseObject(readFileSync(join(folder, nameOf(place)), 'utf8'))
        const [keys, fetched, fresh] = [publicKeysOf(kept), number(kept?.fetched), number(kept?.fresh)]
        return keys && fetched !== undefined && fresh !== undefined ? { keys, fetched, fresh } : undefined
      } catch {
        // The next fetch writes it.
        return undefined
      }
    },
    async write(place, { keys, fetched, fresh }) {
      makeFolder(folder)
      const path = join(folder, nameOf(place))
      const written = `${path}.${process.pid}`
      const list = keys.map(({ kid, algorithm, jwk }) => ({ ...jwk, kid, alg: algorithm }))
      await writeFile(written, JSON.stringify({ issuer: place.issuer, fetched, fresh, keys: list }), { mode: 0o600 })
      await rename(written, path)
    },
  }
}

/** Another place of keys is another file. */
const nameOf = (place: KeySetPlace): string =>
  `${createHash('sha256').update(JSON.stringify(place)).digest('hex').slice(0, 32)}.json`
