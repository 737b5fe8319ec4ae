/*
 * Functions for masking rules, by names that users of the extension PostgreSQL Anonymizer know (its manual, "Masking
 * Functions"). They are in the schema `anon` while a branch is masked. Their bodies are parsed when they are made, so
 * that a search_path cannot change them, but that of a polymorphic one.
 */
import { literal } from './session.ts'

const WORDS = {
  first_names:
    'Ada Ben Cora Dan Eva Finn Gina Hugo Iris Jan Kira Leo Mia Noah Olga Paul Rosa Sam Tara Udo Vera Willi Zoe',
  last_names:
    'Adler Baker Cruz Dietrich Evans Fischer Garcia Hansen Ivanov Jensen Klein Lopez Meyer Novak Olsen Park Rossi',
  cities:
    'Ashford Birchwood Clearwater Dunmore Eastvale Fairview Glenwood Harborton Ironbridge Lakeside Millbrook Norwood',
  countries:
    'Argentina Austria Brazil Canada Chile Denmark Egypt France Germany India Italy Japan Kenya Mexico Norway Spain',
  companies:
    'Acorn Beacon Cobalt Delta Ember Falcon Granite Horizon Indigo Juniper Kestrel Lumen Meridian Nimbus Orchard',
  streets: 'Alder Birch Cedar Elm Fir Hazel Juniper Linden Maple Oak Pine Rowan Spruce Walnut Willow',
  lorem:
    'lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna',
}

const list = (name: keyof typeof WORDS): string =>
  `array[${WORDS[name]
    .split(' ')
    .map((word) => literal(word))
    .join(', ')}]`

/** An element of a list by chance, or, the same for the same text and salt, by a seed. */
const any = (name: keyof typeof WORDS): string => `anon.random_in(${list(name)})`
const seeded = (name: keyof typeof WORDS): string => `anon.pick(${list(name)}, seed, salt)`

const SEED = 'seed text, salt text default null'

type AnonFunction = readonly [signature: string, returns: string, body: string]

/** In the order in which they are made: a body may call those above. */
const PLAIN: readonly AnonFunction[] = [
  ['random_int_between(low int, high int)', 'int', 'low + floor(random() * (high::bigint - low + 1))::int'],
  ['random_bigint_between(low bigint, high bigint)', 'bigint', 'low + floor(random() * (high - low + 1))::bigint'],
  ['random_id()', 'bigint', 'floor(random() * 9007199254740991)::bigint'],
  [
    'random_string(length int)',
    'text',
    `(select string_agg(substr('ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789', 1 + floor(random() * 36)::int, 1), '')
        from generate_series(1, length))`,
  ],
  [
    'random_digits(length int)',
    'text',
    `(select string_agg(floor(random() * 10)::int::text, '') from generate_series(1, length))`,
  ],
  ['random_zip()', 'text', 'anon.random_digits(5)'],
  [`random_phone(prefix text default '0')`, 'text', 'prefix || anon.random_digits(9)'],
  ['random_date_between(low timestamptz, high timestamptz)', 'timestamptz', 'low + (high - low) * random()'],
  ['random_date()', 'timestamptz', `anon.random_date_between('1900-01-01 00:00Z', now())`],
  ['fake_first_name()', 'text', any('first_names')],
  ['fake_last_name()', 'text', any('last_names')],
  ['fake_city()', 'text', any('cities')],
  ['fake_country()', 'text', any('countries')],
  ['fake_company()', 'text', any('companies')],
  ['fake_postcode()', 'text', 'anon.random_digits(5)'],
  ['fake_iban()', 'text', `'XX' || anon.random_digits(20)`],
  ['fake_address()', 'text', `anon.random_int_between(1, 999) || ' ' || ${any('streets')} || ' Street'`],
  [
    'fake_email()',
    'text',
    `lower(anon.fake_first_name() || '.' || anon.fake_last_name()) || anon.random_digits(6) || '@example.com'`,
  ],
  ['dummy_first_name()', 'text', 'anon.fake_first_name()'],
  ['dummy_last_name()', 'text', 'anon.fake_last_name()'],
  ['dummy_name()', 'text', `anon.fake_first_name() || ' ' || anon.fake_last_name()`],
  ['dummy_email()', 'text', 'anon.fake_email()'],
  ['dummy_phone_number()', 'text', 'anon.random_phone()'],
  ['dummy_city_name()', 'text', 'anon.fake_city()'],
  ['dummy_company_name()', 'text', 'anon.fake_company()'],
  [
    'digest(value text, salt text, algorithm text)',
    'text',
    `case algorithm when 'sha224' then encode(sha224(convert_to(value || salt, 'UTF8')), 'hex')
                    when 'sha256' then encode(sha256(convert_to(value || salt, 'UTF8')), 'hex')
                    when 'sha384' then encode(sha384(convert_to(value || salt, 'UTF8')), 'hex')
                    when 'sha512' then encode(sha512(convert_to(value || salt, 'UTF8')), 'hex') end`,
  ],
  [
    'partial(value text, prefix int, padding text, suffix int)',
    'text',
    'left(value, prefix) || padding || right(value, suffix)',
  ],
  [
    'partial_email(value text)',
    'text',
    `left(value, 2) || '******@' || left(split_part(value, '@', 2), 2) || '******.' ||
     reverse(split_part(reverse(value), '.', 1))`,
  ],
  ...['int', 'bigint', 'double precision', 'numeric'].map(
    (type) =>
      [
        `noise(value ${type}, ratio double precision)`,
        type,
        `(value * (1 + (2 * random() - 1) * ratio)::numeric)::${type}`,
      ] as const,
  ),
  ...['date', 'timestamp', 'timestamptz'].map(
    (type) => [`dnoise(value ${type}, most interval)`, type, `(value + most * (2 * random() - 1))::${type}`] as const,
  ),
  [
    'lorem_ipsum(words int default 20)',
    'text',
    `(select string_agg(${any('lorem')}, ' ') from generate_series(1, words))`,
  ],
]

/** @param salt of hashes, and of elements of a list by a seed, unless their caller gives one */
const salted = (salt: string): readonly AnonFunction[] => [
  // Equal values stay equal, also in other tables, and cannot be guessed.
  ['hash(value text)', 'text', `anon.digest(value, ${literal(salt)}, 'sha256')`],
  [
    'pick(choices text[], seed text, salt text)',
    'text',
    `choices[1 + abs(hashtextextended(seed || coalesce(salt, ${literal(salt)}), 0) % cardinality(choices))::int]`,
  ],
  [`pseudo_first_name(${SEED})`, 'text', seeded('first_names')],
  [`pseudo_last_name(${SEED})`, 'text', seeded('last_names')],
  [`pseudo_city(${SEED})`, 'text', seeded('cities')],
  [`pseudo_country(${SEED})`, 'text', seeded('countries')],
  [`pseudo_company(${SEED})`, 'text', seeded('companies')],
  [
    `pseudo_email(${SEED})`,
    'text',
    `lower(anon.pseudo_first_name(seed, salt) || '.' || anon.pseudo_last_name(seed, salt)) ||
     left(anon.digest(seed, coalesce(salt, ${literal(salt)}), 'sha256'), 8) || '@example.com'`,
  ],
]

/** The statements that make the schema `anon` with its functions. @param salt as in `salted` */
export const anonFunctionsSql = (salt: string): string =>
  [
    'create schema anon',
    `create function anon.random_in(choices anyarray) returns anyelement volatile language sql
       as 'select choices[1 + floor(random() * cardinality(choices))::int]'`,
    ...[...PLAIN, ...salted(salt)].map(
      ([signature, returns, body]) => `create function anon.${signature} returns ${returns} volatile return ${body}`,
    ),
  ].join(';\n')
