/** The gateways that store their usage in a shared database, and what those leave that are gone. */
import type { SqlDatabase } from '../../storage/sql/database.ts'

const DAY = 86_400_000
/**
 * ms after which a gateway that stores nothing is gone. Another one decides that when it has been connected for `wait`, so
 * that after an outage of the database all come back first.
 */
const GONE = { after: DAY, wait: 600_000 }
/** ms since 1970, by the clock of the database. */
const NOW = `CAST(unixepoch('subsec') * 1000 AS BIGINT)`

export type Gateways = ReturnType<typeof gatewaysOf>

/** `node`: this gateway. */
export const gatewaysOf = (database: SqlDatabase, node: string) => {
  const known = database.prepare('SELECT 1 FROM gateway WHERE node = ?')
  const enter = database.prepare(
    `INSERT INTO gateway (node, since, seen) VALUES (?, ${NOW}, ${NOW})
      ON CONFLICT (node) DO UPDATE SET since = excluded.since, seen = excluded.seen`,
  )
  const beat = database.prepare(`UPDATE gateway SET seen = ${NOW} WHERE node = ?`)
  const gone = database.prepare(
    `SELECT node FROM gateway WHERE seen < ${NOW} - ${GONE.after} AND node <> ?1
      AND EXISTS (SELECT 1 FROM gateway WHERE node = ?1 AND since < ${NOW} - ${GONE.wait}) LIMIT 1`,
  )
  const leave = database.prepare('DELETE FROM gateway WHERE node = ?')
  return {
    isKnown: (): boolean => known.get(node) !== undefined,
    enter: (): void => void enter.run(node),
    /** Throws if another gateway has closed the attempts of this one, which was gone for a day: the state is no longer that. */
    beat(): void {
      if (Number(beat.run(node).changes) === 0)
        throw new Error('this gateway has stored no usage for 24 hours, so others have closed its attempts')
    },
    /** A gateway that has stored nothing for a day; undefined: there is none. */
    gone: (): string | undefined => {
      const found = gone.get(node)
      return found && String(found.node)
    },
    leave: (other: string): void => void leave.run(other),
  }
}
