# SPDX-License-Identifier: Apache-2.0
# fix_siw.py DIRECTORY: repairs the four defects of the siw driver that affect the tests, each behind a module
# parameter, and turns its MPA constants into parameters with the same defaults.
import re
import sys

directory = sys.argv[1]


def edit(name, function):
    path = f"{directory}/{name}"
    with open(path) as file:
        text = file.read()
    new = function(text)
    assert new != text, f"{name}: nothing matched"
    with open(path, "w") as file:
        file.write(new)


def parameters(text):
    text = re.sub(r"^const bool (zcopy_tx|try_gso|loopback_enabled|mpa_crc_required|mpa_crc_strict|siw_tcp_nagle|"
                  r"peer_to_peer)( = true)?;", r"bool \1\2;\nmodule_param(\1, bool, 0644);", text, flags=re.M)
    return text.replace("u_char mpa_version = MPA_REVISION_2;",
                        "u_char mpa_version = MPA_REVISION_2;\nmodule_param(mpa_version, byte, 0644);")


KICK = """	if (fix_first_fpdu) {
		struct sock *sk = cep->sock ? cep->sock->sk : NULL;

		if (sk) {
			lock_sock(sk);
			local_bh_disable();
			if (!skb_queue_empty(&sk->sk_receive_queue))
				sk->sk_data_ready(sk);
			local_bh_enable();
			release_sock(sk);
		}
	}
"""


def first_fpdu(text):
    text = text.replace('#include "siw.h"', '#include <linux/moduleparam.h>\n#include "siw.h"', 1)
    text = text.replace("static void siw_cm_llp_state_change(struct sock *s);",
                        "static bool fix_first_fpdu;\nmodule_param(fix_first_fpdu, bool, 0644);\n\n"
                        "static void siw_cm_llp_state_change(struct sock *s);", 1)
    at = text.index("siw_qp_socket_assoc(cep, qp)", text.index("int siw_accept("))
    at = text.index("IW_CM_EVENT_ESTABLISHED, 0", at)
    at = text.index("\n\t}\n", at) + len("\n\t}\n")
    return text[:at] + KICK + text[at:]


def mmap_key(text):
    text, count = re.subn(r"rdma_user_mmap_entry_insert\((&uctx->base_ucontext),\s*(&entry->rdma_entry),\s*length\)",
                          r"rdma_user_mmap_entry_insert_range(\1, \2, length, fix_mmap_key ? 0x91 : 0, U32_MAX)",
                          text, count=1)
    assert count == 1
    return text.replace("static int ib_qp_state_to_siw_qp_state",
                        "#include <linux/moduleparam.h>\nstatic bool fix_mmap_key;\n"
                        "module_param(fix_mmap_key, bool, 0644);\n\nstatic int ib_qp_state_to_siw_qp_state", 1)


def split_trailer(text):
    text, count = re.subn(r"skb_copy_bits\(skb, srx->skb_offset, tbuf, avail\);",
                          "skb_copy_bits(skb, srx->skb_offset,\n\t\t      tbuf + (fix_split_trailer ? srx->pad + "
                          "MPA_CRC_SIZE - srx->fpdu_part_rem : 0),\n\t\t      avail);", text, count=1)
    assert count == 1
    return text.replace('#include "siw.h"', '#include <linux/moduleparam.h>\n#include "siw.h"\n\n'
                        "static bool fix_split_trailer;\nmodule_param(fix_split_trailer, bool, 0644);", 1)


# The socket has room again while the thread that filled it still records its position, so two threads walk the send
# queue at once.
SEND_RACE = """
int siw_qp_sq_process(struct siw_qp *qp)
{
	int rv = 0;

	if (!fix_send_race)
		return siw_qp_sq_process_unlocked(qp);
	mutex_lock(&qp->sq_process_lock);
	if (tx_wqe(qp)->wr_status != SIW_WR_IDLE)
		rv = siw_qp_sq_process_unlocked(qp);
	mutex_unlock(&qp->sq_process_lock);
	return rv;
}

"""


def send_race(text):
    text = text.replace("\nint siw_qp_sq_process(struct siw_qp *qp)",
                        "\nstatic int siw_qp_sq_process_unlocked(struct siw_qp *qp)", 1)
    at = text.index("static void siw_sq_resume(")
    text = text[:at] + SEND_RACE.lstrip("\n") + text[at:]
    return text.replace('#include "siw.h"', '#include <linux/moduleparam.h>\n#include "siw.h"\n\n'
                        "static bool fix_send_race;\nmodule_param(fix_send_race, bool, 0644);", 1)


edit("siw_main.c", parameters)
edit("siw.h", lambda text: text.replace("extern const bool ", "extern bool "))
edit("siw.h", lambda text: text.replace("	struct rw_semaphore state_lock;",
                                        "	struct rw_semaphore state_lock;\n	struct mutex sq_process_lock;", 1))
edit("siw_cm.c", first_fpdu)
edit("siw_verbs.c", mmap_key)
edit("siw_verbs.c", lambda text: text.replace("init_rwsem(&qp->state_lock);",
                                              "init_rwsem(&qp->state_lock);\n	mutex_init(&qp->sq_process_lock);", 1))
edit("siw_qp_rx.c", split_trailer)
edit("siw_qp_tx.c", send_race)
