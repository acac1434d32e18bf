"""Figures that the thesis's chapter 4 prints and more than one experiment is held against."""

from __future__ import annotations

from mangrove.planning.problem.capacity import BrokerModel

ACTIVEMQ = BrokerModel(t_rcv_s=4.88e-5, t_fltr_s=1.62e-7, t_tx_s=1.64e-5)  # table 4-5
FILTERS, REPLICATION = 3.0, 10.0  # §4.5.6.1
JOINT_OK = {  # table 4-8: round robin and genetic, from a good, a medium and a weak start
    "A": ((0.628766, 0.589805, 0.485690), (0.719001, 0.718999, 0.718999)),
    "B": ((0.516538, 0.506601, 0.454881), (0.563701, 0.563701, 0.563700)),
}
