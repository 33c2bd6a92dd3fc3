/** The address of a view: page, object, time range, and everything else that is shown. Pure. */
import { isPageName, PAGES, type PageName, USUAL_FROM } from './page-table.ts'
import { ROOT } from './root.ts'

/** Parameters of the address; each has one value or several. */
export type Params = { readonly [name: string]: readonly string[] }

/** What is shown. */
export type Place = {
  readonly page: PageName
  /** The object whose details are shown; null: none. */
  readonly id: string | null
  /** `-15m`, `now`, `yesterday`, a date or an ISO time; null: the default of the page. */
  readonly from: string | null
  readonly to: string | null
  readonly params: Params
}

/** ms since 1970, half open. */
export type Range = { readonly from: number; readonly to: number }

const BASE = `${ROOT}dashboard/`
const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const
/** Parameters that stay when another page is opened. */
const TRAVELLING = ['status', 'provider', 'model', 'asked', 'route', 'key', 'team', 'tag', 'client', 'style'] as const

/** Beginnings of days and months, in the time zone of the browser. */
const CALENDAR: { readonly [word: string]: (today: Date) => Date } = {
  today: (at) => new Date(at.getFullYear(), at.getMonth(), at.getDate()),
  yesterday: (at) => new Date(at.getFullYear(), at.getMonth(), at.getDate() - 1),
  month: (at) => new Date(at.getFullYear(), at.getMonth(), 1),
  'last-month': (at) => new Date(at.getFullYear(), at.getMonth() - 1, 1),
}
const DATE = /^(\d{4})-(\d\d)-(\d\d)$/

/** The beginning of a date, or of the day after it, in the time zone of the browser; null: it is no date. */
const dateAt = (text: string, days: number): number | null => {
  const [, year, month, day] = DATE.exec(text) ?? []
  if (year === undefined || Number.isNaN(Date.parse(text))) return null
  return new Date(Number(year), Number(month) - 1, Number(day) + days).getTime()
}

const isTime = (text: string): boolean =>
  text === 'now' ||
  Object.hasOwn(CALENDAR, text) ||
  dateAt(text, 0) !== null ||
  /^-[1-9][0-9]{0,4}[mhd]$/.test(text) ||
  (/^\d{4}-\d\d-\d\dT/.test(text) && !Number.isNaN(Date.parse(text)))

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    // A malformed escape is shown as it is.
    return text
  }
}

/** Everything but the letters that would make an address hard to read. */
const encoded = (text: string): string =>
  encodeURIComponent(text).replaceAll('%3A', ':').replaceAll('%2F', '/').replaceAll('%40', '@')

/**
 * An ID in a path. Its slashes stay where they can: some proxies decode `%2F`, and the page finds its files by the depth
 * of its address.
 */
const encodedId = (id: string): string => {
  const segments = id.split('/')
  const isPlain = segments.every((segment) => segment !== '' && segment !== '.' && segment !== '..')
  return isPlain ? segments.map(encodeURIComponent).join('/') : encodeURIComponent(id)
}

/** Reads an address; null: it belongs to no page. */
export const parsePlace = (pathname: string, search: string): Place | null => {
  if (pathname !== BASE.slice(0, -1) && !pathname.startsWith(BASE)) return null
  const [name = '', ...rest] = pathname.slice(BASE.length).split('/')
  const page = name === '' ? 'overview' : name
  if (!isPageName(page)) return null
  const id = rest.join('/')
  let from: string | null = null
  let to: string | null = null
  const params: [string, readonly string[]][] = []
  for (const pair of search.replace(/^\?/, '').split('&')) {
    if (pair === '') continue
    const at = pair.indexOf('=')
    const key = decoded(at === -1 ? pair : pair.slice(0, at))
    // A comma inside a value is escaped, so only real separators are found before decoding.
    const values =
      at === -1
        ? ['']
        : pair
            .slice(at + 1)
            .split(',')
            .map(decoded)
    const [first = ''] = values
    if (key === 'from' && isTime(first)) from = first
    else if (key === 'to' && isTime(first)) to = first
    else params.push([key, values])
  }
  return { page, id: id === '' ? null : decoded(id), from, to, params: Object.fromEntries(params) }
}

/** Writes the address of a view, from the root of the origin. */
export const placePath = ({ page, id, from, to, params }: Place): string => {
  const path = `${BASE}${page === 'overview' ? '' : page}${id === null ? '' : `/${encodedId(id)}`}`
  const pairs = [
    ...(from === null ? [] : [`from=${encoded(from)}`]),
    ...(to === null ? [] : [`to=${encoded(to)}`]),
    ...Object.entries(params)
      .filter(([, values]) => values.length > 0)
      .map(([name, values]) => `${encoded(name)}=${values.map(encoded).join(',')}`),
  ]
  return pairs.length === 0 ? path : `${path}?${pairs.join('&')}`
}

/** Another page with the same range and filters. */
export const toPage = (place: Place, page: PageName, id: string | null = null): Place => ({
  page,
  id,
  from: place.from,
  to: place.to,
  params: Object.fromEntries(Object.entries(place.params).filter(([name]) => TRAVELLING.some((one) => one === name))),
})

/** The values of a parameter; an empty list without it. */
export const valuesOf = ({ params }: Place, name: string): readonly string[] =>
  (Object.hasOwn(params, name) ? params[name] : undefined) ?? []

/** The same view with other values of a parameter; none removes it. */
export const withParam = (place: Place, name: string, values: readonly string[]): Place => {
  const { [name]: _before, ...others } = place.params
  return { ...place, params: values.length === 0 ? others : { ...others, [name]: values } }
}

/** The start and end of the range as they are written in the address, or the defaults of the page. */
export const boundsOf = ({ page, from, to }: Place): { readonly from: string; readonly to: string } => ({
  from: from ?? PAGES[page].from ?? USUAL_FROM,
  to: to ?? 'now',
})

/** ms of a relative time such as `-15m`; null: it is absolute or `now`. */
export const agoOf = (text: string): number | null => {
  const [, amount, unit] = /^-([0-9]+)([mhd])$/.exec(text) ?? []
  // The pattern allows these units only.
  return amount === undefined ? null : Number(amount) * UNITS[unit as keyof typeof UNITS]
}

/** `days`: those after the beginning of a date. A range ends with its last date. */
const timeAt = (text: string, now: number, days: number): number => {
  if (text === 'now') return now
  const word = Object.hasOwn(CALENDAR, text) ? CALENDAR[text] : undefined
  const ago = agoOf(text)
  return word ? word(new Date(now)).getTime() : ago === null ? (dateAt(text, days) ?? Date.parse(text)) : now - ago
}

/** The range at a time. One that is empty or reversed becomes a minute long. */
export const rangeAt = (place: Place, now: number): Range => {
  const { from, to } = boundsOf(place)
  const range = { from: timeAt(from, now, 0), to: timeAt(to, now, 1) }
  return range.from < range.to ? range : { from: range.to - UNITS.m, to: range.to }
}

/** Whether the range ends now, so that new events belong to it. */
export const isCurrent = (place: Place): boolean => boundsOf(place).to === 'now'

/** The same view with an absolute range, for links. */
export const shared = (place: Place, now: number): Place => {
  const { from, to } = rangeAt(place, now)
  return { ...place, from: new Date(from).toISOString(), to: new Date(to).toISOString() }
}
