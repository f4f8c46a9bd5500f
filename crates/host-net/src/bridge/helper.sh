# Puts the rules of a bridge in place where it runs, or looks at them, or removes them. Runs in a
# container of the engine's with the network of its host and the capability NET_ADMIN. The last
# line of its output says how it went. What is above this line sets: action, link, gateway6, table,
# comment, sets, and the functions rules_by_bridge and rules_by_address.

set -eu
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

one_line() { tr '\n\t' '  ' | cut -c 1-600; }
fail() { printf 'emergent-bridge failed %s\n' "$(printf '%s' "$1" | one_line)"; exit 1; }

is_down() { [ -d "/sys/class/net/$link" ] && [ $(($(cat "/sys/class/net/$link/flags") & 1)) = 0 ]; }

# Where the rules are not certain to be in place, nothing passes the bridge.
disconnect() {
    [ -d "/sys/class/net/$link" ] || return 0
    why_up=$(ip link set dev "$link" down 2>&1) || fail "$1; and the bridge cannot be taken down: $why_up"
}
disconnect_and_fail() { disconnect "$1"; fail "$1"; }

# The kernel forgets addresses of IPv6 when a link goes down. Not every `ip` knows the last word.
reconnect() {
    is_down || return 0
    [ -z "$gateway6" ] || ip -6 addr add "$gateway6" dev "$link" nodad >/dev/null 2>&1 ||
        ip -6 addr add "$gateway6" dev "$link" >/dev/null 2>&1 || true
    why=$(ip link set dev "$link" up 2>&1) || fail "the bridge is down and cannot be brought up: $why"
}

# The name of a table's separation: a rule can ask for the bridge or cannot.
separation() {
    case $(nft list table bridge "$table" 2>/dev/null) in
    *ibrname*) echo by-bridge ;;
    *across*) echo by-address ;;
    *) echo none ;;
    esac
}

# What is in place, without what changes by itself.
listing() {
    nft -s -t list table inet "$table" && nft -s list table bridge "$table" || return 1
    for set in $sets; do nft -s list set inet "$table" "$set" || return 1; done
}

# The same as a number. Not every image has the same program for that.
digest() {
    text=$(listing 2>/dev/null) || { echo none; return; }
    for program in sha256sum md5sum cksum; do
        command -v "$program" >/dev/null || continue
        printf '%s' "$text" | "$program" | cut -d ' ' -f 1
        return
    done
}

# Whether the bridge is here, and shows its packets to the rules for routed ones where that is needed.
bridge() {
    [ -d "/sys/class/net/$link/bridge" ] || { echo missing; return; }
    [ "$(separation)" = by-address ] || { echo here; return; }
    for family in iptables ip6tables; do
        all=$(cat "/proc/sys/net/bridge/bridge-nf-call-$family" 2>/dev/null) || { echo open; return; }
        own=$(cat "/sys/class/net/$link/bridge/nf_call_$family" 2>/dev/null) || own=
        [ "$all" = 1 ] || [ "$own" = 1 ] || { echo open; return; }
    done
    echo here
}

# The older form of the command is asked only where its tables are in use: asking loads its module.
firewalls() {
    for program in iptables ip6tables; do
        command -v "$program" >/dev/null && echo "$program"
    done
    grep -qx filter /proc/net/ip_tables_names 2>/dev/null && command -v iptables-legacy >/dev/null &&
        echo iptables-legacy
    grep -qx filter /proc/net/ip6_tables_names 2>/dev/null && command -v ip6tables-legacy >/dev/null &&
        echo ip6tables-legacy
    return 0
}

# The rules of a firewall ($1) that are ours.
ours() { "$1" -w 5 -S 2>/dev/null | tr -d '"' | grep -e "^-A .* --comment $comment "; }

# The chain of a firewall ($1) in which an accept is needed.
chain() {
    "$1" -w 5 -S 2>/dev/null | {
        found=
        while read -r rule; do
            case "$rule " in
            "-N DOCKER-USER ") found=DOCKER-USER ;;
            "-"?" FORWARD "*" DROP "* | "-P FORWARD DROP "* | "-"?" FORWARD "*" REJECT "* | \
                "-"?" FORWARD "*" ufw"*) [ "$found" ] || found=FORWARD ;;
            esac
        done
        echo "$found"
    }
}

# The accepts of a firewall ($1) with an option ($2) in a chain ($3).
each_accept() {
    "$1" -w 5 "$2" "$3" -i "$link" -m comment --comment "$comment" -j ACCEPT &&
        "$1" -w 5 "$2" "$3" -o "$link" -m conntrack --ctstate RELATED,ESTABLISHED \
            -m comment --comment "$comment" -j ACCEPT
}

# Whether a firewall ($1) has exactly the accepts that are needed in a chain ($2), if that is one.
is_open() {
    case "$2 $(ours "$1" | wc -l | tr -d ' ')" in
    " 0") return 0 ;;
    "DOCKER-USER 2" | "FORWARD 2") each_accept "$1" -C "$2" >/dev/null 2>&1 ;;
    *) return 1 ;;
    esac
}

close() {
    ours "$1" | while read -r _ rule; do
        # Words of our own, without any that a shell would change.
        # shellcheck disable=SC2086
        "$1" -w 5 -D $rule || exit 1
    done
}

accepts() {
    answer=kept
    for program in $(firewalls); do
        target=$(chain "$program")
        is_open "$program" "$target" && continue
        answer=missing
        [ "$1" = look ] && continue
        answer=renewed
        why=$({ close "$program" && { [ -z "$target" ] || each_accept "$program" -I "$target"; }; } 2>&1) ||
            fail "$program: $why"
    done
}

remove_tables() {
    for family in inet bridge; do
        nft list table "$family" "$1" >/dev/null 2>&1 || continue
        why=$(nft delete table "$family" "$1" 2>&1) || fail "nft: $why"
    done
}

if ! command -v nft >/dev/null; then
    [ "$action" = remove ] || disconnect_and_fail "nft is not in the helper's image"
    fail "nft is not in the helper's image"
fi

case $action in
install)
    if rules_by_bridge | nft -c -f - >/dev/null 2>&1; then rules=rules_by_bridge; else rules=rules_by_address; fi
    # A packet under way may pass between an old table and its successor, but not a copy of that.
    if nft list table inet "$table" >/dev/null 2>&1; then
        why=$($rules | sed "s/$table/${table}_copy/" | nft -f - 2>&1) || disconnect_and_fail "nft: $why"
    fi
    why=$($rules | nft -f - 2>&1) || disconnect_and_fail "nft: $why"
    remove_tables "${table}_copy"
    why=$(listing 2>&1 >/dev/null) || disconnect_and_fail "the rules cannot be listed: $why"
    [ "$(digest)" ] || fail "sha256sum is not in the helper's image"
    if [ "$(bridge)" = open ]; then
        # Where the image has no such program, the setting for all bridges decides.
        ip link set "$link" type bridge nf_call_iptables 1 nf_call_ip6tables 1 >/dev/null 2>&1 || true
    fi
    if [ "$(bridge)" = open ]; then disconnect "the bridge does not show its packets"; else reconnect; fi
    accepts change
    ;;
verify)
    # What is acted on is what is told. That rules are there and changed is told by the digest, and they are
    # installed anew then; so they are where the bridge is down, because only that brings it up.
    seen_digest=$(digest) seen_bridge=$(bridge)
    if [ "$seen_digest" = none ] || [ "$seen_bridge" = open ]; then disconnect "the rules are not in place"; fi
    if is_down; then seen_digest=none; fi
    accepts look
    ;;
remove)
    for program in $(firewalls); do
        why=$(close "$program" 2>&1) || fail "$program: $why"
    done
    remove_tables "${table}_copy"
    remove_tables "$table"
    answer=kept
    ;;
esac

printf 'emergent-bridge ok separation=%s bridge=%s accepts=%s digest=%s\n' \
    "$(separation)" "${seen_bridge:-$(bridge)}" "$answer" "${seen_digest:-$(digest)}"
