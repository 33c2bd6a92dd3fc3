/** Parses and matches IP addresses and CIDR ranges (RFC 4632, RFC 4291). */

/** An address as 16-bit groups: two for IPv4, eight for IPv6. An IPv4-mapped IPv6 address is the IPv4 address. */
export type IpAddress = readonly number[]

/** The addresses that share the first `bits` bits with `address`. */
export type IpRange = { readonly address: IpAddress; readonly bits: number }

/** Parses an address in its usual text form, with or without an IPv6 zone (`fe80::1%eth0`). Undefined: invalid. */
export const parseIp = (text: string): IpAddress | undefined => {
  const address = parseUnmapped(text)
  return address && isMapped(address) ? address.slice(MAPPED.length) : address
}

/** Parses `10.0.0.0/8`, `2001:db8::/32` or a single address. Bits after the prefix are ignored. Undefined: invalid. */
export const parseIpRange = (text: string): IpRange | undefined => {
  const [, written = '', length] = /^([^/]+)(?:\/([0-9]{1,3}))?$/.exec(text) ?? []
  const address = written.includes('%') ? undefined : parseUnmapped(written)
  if (!address) return undefined
  const bits = length === undefined ? address.length * GROUP : Number(length)
  if (bits > address.length * GROUP) return undefined
  // `::ffff:10.0.0.0/104` is 10.0.0.0/8. A shorter prefix covers more than the mapped addresses and remains IPv6.
  const mapped = isMapped(address) && bits >= MAPPED.length * GROUP
  return mapped ? { address: address.slice(MAPPED.length), bits: bits - MAPPED.length * GROUP } : { address, bits }
}

/** Whether a range contains an address. An IPv6 range contains no IPv4 address, and the reverse. */
export const contains = ({ address, bits }: IpRange, ip: IpAddress): boolean => {
  if (address.length !== ip.length) return false
  for (let group = 0, left = bits; left > 0; group++, left -= GROUP) {
    const shift = Math.max(0, GROUP - left)
    if ((address[group] ?? 0) >> shift !== (ip[group] ?? 0) >> shift) return false
  }
  return true
}

/** Bits of a group. */
const GROUP = 16
/** The prefix of IPv4-mapped addresses, `::ffff:0:0/96` (RFC 4291, section 2.5.5.2). */
const MAPPED: IpAddress = [0, 0, 0, 0, 0, 0xffff]
const IPV6_GROUPS = 8
/** The longest text of an IPv6 address with an IPv4 part and a zone of 16 characters. */
const MAX_LENGTH = 64

const isMapped = (address: IpAddress): boolean =>
  address.length === IPV6_GROUPS && MAPPED.every((group, at) => address[at] === group)

const parseUnmapped = (text: string): IpAddress | undefined => {
  if (text.length > MAX_LENGTH) return undefined
  return text.includes(':') ? parseIpv6(text.replace(/%[^%]+$/, '')) : parseIpv4(text)
}

/** Without leading zeros, because some parsers read them as octal. */
const IPV4 = /^(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})$/

const parseIpv4 = (text: string): IpAddress | undefined => {
  const bytes = (IPV4.exec(text) ?? []).slice(1).map(Number)
  const [a = 256, b = 256, c = 256, d = 256] = bytes
  return Math.max(a, b, c, d) > 255 ? undefined : [a * 256 + b, c * 256 + d]
}

const parseIpv6 = (text: string): IpAddress | undefined => {
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const [start, end] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const head = groupsOf(start ?? [], end === undefined)
  if (end === undefined) return head?.length === IPV6_GROUPS ? head : undefined
  const tail = groupsOf(end, true)
  const missing = IPV6_GROUPS - (head?.length ?? 0) - (tail?.length ?? 0)
  // `::` stands for at least one group.
  if (!head || !tail || missing < 1) return undefined
  return [...head, ...Array.from({ length: missing }, () => 0), ...tail]
}

/** Parses hexadecimal groups; at the end of an address the last part may be an IPv4 address. */
const groupsOf = (parts: readonly string[], isEnd: boolean): readonly number[] | undefined => {
  const groups: number[] = []
  for (const [at, part] of parts.entries()) {
    const ipv4 = isEnd && at === parts.length - 1 ? parseIpv4(part) : undefined
    if (ipv4) groups.push(...ipv4)
    else if (/^[0-9a-f]{1,4}$/i.test(part)) groups.push(Number.parseInt(part, 16))
    else return undefined
  }
  return groups
}
