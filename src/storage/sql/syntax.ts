/** What SQLite and Postgres spell differently in queries: `sqlite/store.ts` and `postgres/store.ts`. */
import type { Expression, RawBuilder, SqlBool } from 'kysely'

export type SqlSyntax = {
  /** Whether a value is one of these. */
  among(value: Expression<unknown>, texts: readonly string[]): Expression<SqlBool>
  /** A text that is a member of a JSON object. */
  member(json: Expression<unknown>, name: string): Expression<string | null>
  /** Whether an object with texts, which is a member of a JSON object, has one of these pairs. */
  hasPair(
    json: Expression<unknown>,
    name: string,
    pairs: readonly (readonly [name: string, value: string])[],
  ): Expression<SqlBool>
  /** Whether a text contains another. */
  contains(text: Expression<unknown>, part: string): Expression<SqlBool>
  /** The greater number. */
  greater(one: Expression<number>, other: Expression<number>): Expression<number>
  /** A query of the rows in JSON text, a list of objects. */
  rows<Row>(json: string, columns: { readonly [Column in keyof Row & string]: 'integer' | 'text' }): RawBuilder<Row>
}
